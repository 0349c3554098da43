"""The log of one partition: segments, what is known of its producers and leader epochs, and where it begins and ends.

A `Log` is put together from parts over one `LogState`: the `Appender` writes at its end, its `Shape` is the segments it
is cut into, its `Durability` what of it is on the disk for good. Reading is here.

Who may call what, from where. One task (the event loop) appends, rolls and reads. These may run in a thread meanwhile:
`flush`, and the reads (`read`, `offset_for_time`, `max_timestamp`, `aborted_transactions`) where they would wait for a
disk: `is_hot` tells. `truncate_to`, `restart_at`, `close` and the move of its directory exclude all others: their caller
sees to that. What makes it work: the list of segments is replaced, never changed; files and arrays only grow; `flush`
notes the end of the log first, syncs what lies below, and only then moves the recovery point.

Failures. A write that fails is taken back (the file cut to its size before) and raises a `StorageError` that says so:
a full disk refuses produces and harms nothing. If that fails too, or a sync does, what is on the disk is unknown; and
where the disk itself fails (`failures.is_fault`), a read or a write, nothing on it can be trusted: the log is *dead*,
every later call raises, and its directory is to be taken out of service. A failed fsync is never tried again: the kernel
may have dropped the pages it could not write.
"""

import contextlib
import errno
from collections.abc import Sequence
from typing import Self

from pk.core.log import aborted, lookup, recovery, swap
from pk.core.log.appender import Appended, Appender, Origin, Replicated
from pk.core.log.config import LogConfig
from pk.core.log.durability import Durability
from pk.core.log.epochs import EpochEnd, LeaderEpochs
from pk.core.log.failures import StorageError, is_fault, storage_errors
from pk.core.log.file_slices import EMPTY
from pk.core.log.files import Data, Disk, WouldWait, at_once
from pk.core.log.logdir import LogDir
from pk.core.log.lookup import FetchSlice, FoundTimestamp
from pk.core.log.producers import EMPTY_SNAPSHOT_BYTES, Producers
from pk.core.log.segment import Part, Segment
from pk.core.log.shape import Shape
from pk.core.log.state import INT32_MAX, UNREAD_EPOCH, LogState
from pk.core.log.txnindex import AbortedTxn, TxnIndexLost
from pk.core.record.batch import BatchHeader, Timestamps
from pk.core.values import TopicPartition, Uuid

__all__ = ["Appended", "Log", "Origin", "Replicated"]


class Log:
    """See the top of this file. Made by `open`."""

    __slots__ = (
        "__weakref__",
        "appender",
        "durability",
        "log_dir",
        "recovered",
        "shape",
        "snapshot_bytes",
        "state",
    )

    log_dir: LogDir
    """The directory of `log.dirs` that it lies in; set by `LogDirs`."""

    def __init__(self, state: LogState) -> None:
        """For `open` only."""
        self.state = state
        self.durability = Durability(state)
        self.shape = Shape(state, self.durability)
        self.appender = Appender(state, self.shape)
        self.recovered: recovery.Cut | None = None
        """What recovery had to cut, if the log was not closed cleanly."""
        self.snapshot_bytes = 0
        """The size of the producers' snapshot with which it was opened."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        tp: TopicPartition,
        config: LogConfig,
        *,
        topic_id: Uuid,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean: bool,
        now_ms: int,
        progress: recovery.Progress | None = None,
    ) -> Self:
        """Open the log in `directory`, which exists; an empty one becomes an empty log. `clean`: it was closed by
        `close`; else it is checked and mended, and `progress` told how far that is. Raises StorageError."""
        with storage_errors(directory, "open"):
            found = recovery.find(disk, directory)
            if found.swaps:
                swap.complete(disk, directory, found.swaps, now_ms)
                found = recovery.find(disk, directory)
            for name in found.leftovers:
                disk.remove(f"{directory}/{name}")
            segments = []
            for base, sizes in sorted(found.segments.items()):
                segment = Segment(disk, directory, base, sizes, now_ms)
                segment.modified_ms = found.modified_ms[base]
                segments.append(segment)
            if new := not segments:
                segments.append(Segment(disk, directory, log_start_offset, {}, now_ms))
            state = LogState(disk, directory, tp, config, topic_id, segments, now_ms)
            state.snapshots = found.snapshots
            state.has_epochs_file = found.has_epochs
            self = cls(state)
            if new:
                self.shape.create(segments[0])
                state.names_changed = state.changed = True
                state.producers = Producers(log_start_offset)
                state.replace_epochs(LeaderEpochs(), UNREAD_EPOCH, dirty=False)
                state.log_end_offset = log_start_offset
            elif clean:
                if (end := recovery.clean_end_offset(found, segments, recovery_point)) is None:
                    end = recovery.walked_end_offset(segments[-1])
                state.log_end_offset = end
                self.snapshot_bytes = found.snapshot_bytes.get(end, 0)
                if self.snapshot_bytes == EMPTY_SNAPSHOT_BYTES:
                    state.producers = Producers(end)
            else:
                self._recover(recovery_point, progress)
            state.begin_at(
                min(max(log_start_offset, state.segments[0].base_offset), state.log_end_offset)
            )
            if not clean and not new:
                self._rebuild(recovery_point)
            self.durability.start(min(recovery_point, state.log_end_offset))
            return self

    def _recover(self, recovery_point: int, progress: recovery.Progress | None) -> None:
        """Check the segments, and cut what is torn. Raises OSError."""
        state = self.state
        state.changed = True
        interval = state.config.index_interval_bytes
        state.segments, self.recovered = recovery.recover(
            state.disk, state.directory, state.segments, recovery_point, interval, progress
        )
        state.segments[-1].allocate_indexes(self.shape.index_bytes_max)
        state.log_end_offset = self.recovered.end_offset

    def _rebuild(self, recovery_point: int) -> None:
        """Read again the producers, aborted transactions and leader epochs of a log that was not closed."""
        state = self.state
        first = state.segments[recovery.suspect_from(state.segments, recovery_point)]
        self.durability.remove_snapshots(
            [offset for offset in state.snapshots if offset > first.base_offset]
        )
        state.producers, ended = state.load_producers()
        for transaction in ended:
            if transaction.last_offset >= first.base_offset:
                state.segment_of(transaction.last_offset).txn_index.append(transaction)
        epochs = state.epochs
        epochs.truncate_end(first.base_offset)  # the batches say it better
        for header, _ in recovery.batches_between(
            state.segments, first.base_offset, state.log_end_offset
        ):
            if header.leader_epoch > epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)
        epochs.truncate_start(state.log_start_offset)

    def close(self) -> None:
        """Make everything durable, so that the log opens without a read, and let its files go. Raises StorageError."""
        state = self.state
        if state.dead is not None:
            self._close_files()
            return
        with self.durability.lock:
            self.shape.finish_swap()
            self._finish()
            self._close_files()

    def _close_files(self) -> None:
        for segment in self.state.segments:
            segment.close()

    def _finish(self) -> None:
        """Bring the active segment and what is derived from the records to the disk."""
        state, durability = self.state, self.durability
        active = state.segments[-1]
        if active.active:
            try:
                active.finish()
            except OSError as e:
                raise state.refuse("give room back", e) from e
        behind = durability.recovery_point < state.log_end_offset
        changed = state.changed or behind or state.names_changed
        try:
            aborted.keep(state, *state.segments)
            if changed and active.size:
                durability.write_snapshot(state.log_end_offset)
        except OSError as e:
            raise state.refuse("close", e) from e
        if changed:  # not for a new epoch alone: 10,000 partitions get one at every start, most write nothing
            durability.flush(force=True)
            if durability.recovery_point < state.log_end_offset:
                raise state.refuse("close", OSError(errno.ENOSPC, "no room for indexes"))

    def abandon(self) -> None:
        """Let the files go of a log that is to be removed; a flush under way ends first."""
        with self.durability.lock:
            self.state.abandoned = True
            self._close_files()

    def move_directory(self, directory: str) -> None:
        """Rename the partition's directory. Readers in flight go on. Raises StorageError."""
        state = self.state
        try:
            state.disk.rename(state.directory, directory)
        except OSError as e:
            raise state.die("rename the directory", e) from e
        for segment in state.segments:
            segment.moved(directory)
        state.directory = directory

    # --- what it is ---

    @property
    def disk(self) -> Disk:
        """Where its files are."""
        return self.state.disk

    @property
    def directory(self) -> str:
        """The partition's directory."""
        return self.state.directory

    @property
    def tp(self) -> TopicPartition:
        """Whose log it is."""
        return self.state.tp

    @property
    def topic_id(self) -> Uuid:
        """The id of its topic."""
        return self.state.topic_id

    @property
    def config(self) -> LogConfig:
        """The settings; assigning others changes the log's behaviour from the next append on."""
        return self.state.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self.state.config = config
        self.shape.configure(config)
        self.appender.configure(config)

    @property
    def segments(self) -> list[Segment]:
        """In order, never empty; the last is active. Replaced, never changed."""
        return self.state.segments

    @property
    def log_start_offset(self) -> int:
        """The first offset that a reader may ask for."""
        return self.state.log_start_offset

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that this broker's disk holds (see `LogState`)."""
        return self.state.local_log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.state.log_end_offset

    @property
    def recovery_point(self) -> int:
        """Where recovery begins: below it all is on the disk."""
        return self.durability.recovery_point

    @property
    def durable_offset(self) -> int:
        """Below it the records are on the disk; at or after the recovery point."""
        return self.durability.durable_offset

    @property
    def producers(self) -> Producers:
        """The state of this log's producers, read at first use. Raises StorageError."""
        return self.state.producers

    @property
    def epochs(self) -> LeaderEpochs:
        """The leader epochs of this log, read at first use. Raises StorageError."""
        return self.state.epochs

    @property
    def dead(self) -> StorageError | None:
        """Why nothing on its disk can be trusted any more."""
        return self.state.dead

    @dead.setter
    def dead(self, value: StorageError | None) -> None:
        self.state.dead = value

    @property
    def is_abandoned(self) -> bool:
        """Whether nothing is written or synced any more: the log is deleted, or closed."""
        return self.state.abandoned

    @property
    def created(self) -> bool:
        """Whether its names are perhaps not durable yet: it is new, or was not closed."""
        return self.durability.created

    @created.setter
    def created(self, value: bool) -> None:
        self.durability.created = value

    @property
    def first_dirty_offset(self) -> int | None:
        """Up to where the log is compacted; None where that is not known."""
        return self.shape.first_dirty_offset

    @first_dirty_offset.setter
    def first_dirty_offset(self, value: int | None) -> None:
        self.shape.first_dirty_offset = value

    @property
    def starts_inside_segment(self) -> bool:
        """Whether a checkpoint must tell its start: it is not the first segment's, or a crash could bring segments back
        that lay before it."""
        state = self.state
        first = state.segments[0].base_offset
        return state.log_start_offset > (0 if state.names_changed else first)

    # --- its parts: what each call means stands there ---

    def append_as_leader(
        self,
        batch: bytearray | memoryview,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        timestamps: Timestamps | None = None,
    ) -> Appended:
        """See `Appender`."""
        return self.appender.append_as_leader(
            batch, header, leader_epoch, now_ms, origin=origin, timestamps=timestamps
        )

    def append_run(
        self,
        run: Sequence[tuple[bytearray | memoryview, BatchHeader, Timestamps]],
        leader_epoch: int,
        now_ms: int,
    ) -> list[int]:
        """See `Appender`."""
        return self.appender.append_run(run, leader_epoch, now_ms)

    def append_as_follower(
        self, data: Data, now_ms: int, *, epoch_max: int = INT32_MAX
    ) -> Replicated:
        """See `Appender`."""
        return self.appender.append_as_follower(data, now_ms, epoch_max=epoch_max)

    def roll_due(self, now_ms: int) -> bool:
        """See `Shape`."""
        return self.shape.roll_due(now_ms)

    def roll(self, now_ms: int) -> None:
        """See `Shape`."""
        self.shape.roll(now_ms)

    def roll_to(self, offset: int, now_ms: int) -> None:
        """See `Shape`."""
        self.shape.roll_to(offset, now_ms)

    def delete_before(self, offset: int, segments_max: int | None = None) -> int:
        """See `Shape`."""
        return self.shape.delete_before(offset, segments_max)

    def truncate_to(self, offset: int) -> bool:
        """See `Shape`."""
        return self.shape.truncate_to(offset)

    def restart_at(self, offset: int, now_ms: int | None = None) -> None:
        """See `Shape`."""
        self.shape.restart_at(offset, now_ms)

    def swap_in(self, base_offset: int, replaced: Sequence[Part], sizes: dict[str, int]) -> bool:
        """See `Shape`."""
        return self.shape.swap_in(base_offset, replaced, sizes)

    def step_swap(self) -> bool:
        """See `Shape`."""
        return self.shape.step_swap()

    @property
    def deleted_files(self) -> list[str]:
        """See `Shape`."""
        return self.shape.deleted_files

    def remove_deleted(self, names: list[str] | None = None) -> int:
        """See `Shape`."""
        return self.shape.remove_deleted(names)

    def flush(self, up_to: int | None = None, *, force: bool = False) -> None:
        """See `Durability`."""
        self.durability.flush(up_to, force=force)

    def sync_names(self) -> None:
        """See `Durability`."""
        self.durability.sync_names()

    # --- reading ---

    def read(
        self,
        offset: int,
        bytes_max: int,
        offset_end: int,
        *,
        minimum_one: bool = True,
        wary: bool = False,
    ) -> FetchSlice:
        """Batches from the one that holds `offset`, up to but not including what begins at `offset_end` (high
        watermark, last stable offset or end of the log).

        At most `bytes_max` bytes, so that the last batch may be cut off; but the first one whole with `minimum_one`
        (KIP-74), and nothing without it if the first does not fit. What nobody has checked yet is checked, and, if `wary`,
        what comes from the disk again: it ends before a batch that is damaged. Empty where `offset` is not below `offset_end`.
        Raises KafkaError(OFFSET_OUT_OF_RANGE) outside of the log, StorageError, CorruptBatch.
        """
        segments = self.state.segments
        active_size = segments[-1].size
        end = self.state.log_end_offset
        if offset < self.state.local_log_start_offset or offset > end:
            raise self.state.out_of_range(offset)
        if offset >= offset_end or offset == end:
            return FetchSlice(EMPTY, offset)
        try:
            return lookup.read(
                segments, offset, bytes_max, offset_end, minimum_one, end, active_size, wary
            )
        except OSError as e:
            raise StorageError(self.state.directory, "read", e, not is_fault(e)) from e

    def read_bytes(self, offset: int, bytes_max: int, offset_end: int) -> bytes:
        """What `read` finds, in hand. Raises as it does."""
        found = self.read(offset, bytes_max, offset_end).slice
        with storage_errors(self.state.directory, "read"):
            return found.read()

    def read_nowait(
        self, offset: int, bytes_max: int, offset_end: int, *, minimum_one: bool = True
    ) -> FetchSlice | None:
        """As `read`, but None where it would have to wait for the disk to find its place: then `read` in a thread."""
        if self.is_hot(offset):
            return self.read(offset, bytes_max, offset_end, minimum_one=minimum_one)
        try:
            with at_once():
                return self.read(offset, bytes_max, offset_end, minimum_one=minimum_one, wary=True)
        except WouldWait:
            return None

    def is_hot(self, offset: int) -> bool:
        """Whether `read` finds its place for `offset` without I/O; else it may wait for the disk. (The slice's own
        `resident` tells the same of the bytes.)"""
        return offset >= self.state.log_end_offset or self.state.segments[-1].is_recent(offset)

    def offset_for_time(self, timestamp: int) -> FoundTimestamp | None:
        """The first record that is not earlier than `timestamp`; None if all are. Raises StorageError."""
        with storage_errors(self.state.directory, "look up a time"):
            return lookup.offset_for_time(
                self.state.segments, timestamp, self.state.log_start_offset
            )

    def max_timestamp(self) -> FoundTimestamp | None:
        """The first record with the latest timestamp (KIP-734); None if none has one. Raises StorageError."""
        with storage_errors(self.state.directory, "look up the latest time"):
            return lookup.max_timestamp(self.state.segments)

    def aborted_transactions(
        self, offset: int, fetched: FetchSlice, *, patient: bool = True
    ) -> list[AbortedTxn]:
        """The aborted transactions that a reader of committed records must leave out of `fetched`, which it read from
        `offset`. Raises StorageError, CorruptBatch where an index was lost and cannot be made anew, and WouldWait if it
        would have to be, or lies cold, and the caller is not `patient`: then in a thread."""
        if not fetched.length or all(segment.txn_index.empty for segment in self.state.segments):
            return []
        waiting = contextlib.nullcontext() if patient else at_once()
        with storage_errors(self.state.directory, "read aborted transactions"), waiting:
            beyond = lookup.offset_beyond(self.state.segments, fetched, self.state.log_end_offset)
            if patient:
                return aborted.between(self.state, offset, beyond)
            try:
                return lookup.aborted_transactions(self.state.segments, offset, beyond)
            except TxnIndexLost:
                raise WouldWait from None

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where every transaction is decided, at most the high watermark, and the start of the log where one is open
        that began before. Raises StorageError at first use."""
        first = self.state.producers.first_unstable_offset(high_watermark)
        if first is None or first > high_watermark:
            return high_watermark
        return max(first, self.state.log_start_offset)

    @property
    def size(self) -> int:
        """Bytes of records, over all segments."""
        return sum(segment.size for segment in self.state.segments)

    def expire_producers(self, now_ms: int) -> int:
        """Forget the producers that were idle for `producer.id.expiration.ms`; how many. Of those that were never read
        none is: their time counts from then on."""
        producers, after_ms = self.state.known_producers, self.config.producer_id_expiration_ms
        return 0 if producers is None else producers.expire(now_ms, after_ms)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch that wrote `offset`, or -1 if that is not known."""
        return self.state.epochs.epoch_of(offset)

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch that is known, or -1."""
        return self.state.epochs.latest

    def take_start(self, other: "Log") -> None:
        """Begin where another log of the same partition does, which this one is a copy of."""
        self.state.log_start_offset = other.log_start_offset
        self.state.local_log_start_offset = other.local_log_start_offset

    def take_epochs(self, other: "Log") -> None:
        """Take the leader epochs of another log of the same partition, which this one is a copy of."""
        self.state.replace_epochs(LeaderEpochs(other.epochs.entries), UNREAD_EPOCH)

    def assign_epoch_start(self, epoch: int) -> None:
        """Note that this broker leads from here on, under `epoch`."""
        self.state.note_epoch(epoch, self.state.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Where `epoch`, or the largest one below it, ends in this log (KIP-101, KIP-279)."""
        return self.state.epochs.end_offset(epoch, self.state.log_end_offset)
