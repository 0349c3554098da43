"""The log of one partition: its segments, producers, leader epochs, and its first and last offsets.

A `Log` has three parts that share one `LogState`: the `Appender` writes at the end,
`LogSegments` manages the segments, and `Durability` syncs them to disk. This file does the reading.

Threads. One task (the event loop) appends, rolls and reads. At the same time, other threads may
call `flush` and the reads (`read`, `offset_for_time`, `max_timestamp`, `aborted_transactions`) that
would wait for the disk; `is_hot` says whether `read` would. The caller of `truncate_to`,
`restart_at`, `close` or `move_directory` must keep all other calls away. This works because the
list of segments is replaced, never changed; files and arrays only grow; and `flush` reads the log
end first, then syncs everything before it, and only then moves the recovery point.

Failures. A failed write is undone (the file is cut to its previous size) and raises a
`StorageError`: a full disk refuses produce requests and does no other harm. If the undo fails, or
a sync does, the disk's contents are unknown. If the disk itself fails (`failures.is_fault`),
nothing on it can be trusted. In both cases the log is *dead*: every later call raises, and the
caller must take its directory out of service. A failed fsync is never retried, because the kernel
may have dropped the pages that it could not write.
"""

import contextlib
import errno
import logging
from collections.abc import Sequence
from typing import Self

from pk.core.log import aborted, lookup, recovery, swap
from pk.core.log.appender import Appended, Appender, Origin, Replicated
from pk.core.log.config import LogConfig
from pk.core.log.damaged import (
    Damage,
    Keeper,
    Known,
    Mark,
    kept_files,
    read_mark,
    take_over,
    unmark,
)
from pk.core.log.durability import Durability
from pk.core.log.epochs import EpochEnd, LeaderEpochs
from pk.core.log.failures import StorageError, is_fault, storage_errors
from pk.core.log.file_slices import EMPTY
from pk.core.log.files import Data, Disk
from pk.core.log.log_segments import LogSegments
from pk.core.log.logdir import LogDir
from pk.core.log.lookup import FetchSlice, FoundTimestamp
from pk.core.log.non_blocking import WouldBlock, non_blocking
from pk.core.log.producers import EMPTY_SNAPSHOT_BYTES, Producers
from pk.core.log.segment import Part, Segment
from pk.core.log.state import INT32_MAX, UNREAD_EPOCH, LogState
from pk.core.log.txnindex import AbortedTxn, TxnIndexLost
from pk.core.record.batch import BatchHeader, CorruptBatch, Timestamps
from pk.core.record.validation import ValidatedBatch
from pk.core.values import NO_EPOCH, NO_OFFSET, TopicPartition, Uuid

logger = logging.getLogger("pk.log")

__all__ = ["Appended", "Log", "Origin", "Replicated"]


class Log:
    """One partition's log, made by `open`. The top of this file explains threads and failures."""

    __slots__ = (
        "__weakref__",
        "appender",
        "closed_as",
        "damaged_segments",
        "durability",
        "kept_bytes",
        "log_dir",
        "log_segments",
        "mark",
        "recovered",
        "rewriting",
        "snapshot_bytes",
        "state",
    )

    log_dir: LogDir
    """The directory of `log.dirs` that holds it; set by `LogDirs`."""

    def __init__(self, state: LogState) -> None:
        """Only for `open`."""
        self.state = state
        self.durability = Durability(state)
        self.log_segments = LogSegments(state, self.durability)
        self.appender = Appender(state, self.log_segments)
        self.recovered: recovery.Cut | None = None
        """The result of recovery, if the log was not closed cleanly."""
        self.closed_as: bytes | None = None
        """The note about its last close (closed_logs.py), if it was opened by that."""
        self.mark: Mark | None = None
        """The damage found in it, until it is in sync again."""
        self.damaged_segments: dict[int, str] = {}
        """Base offsets of closed segments found damaged since it was opened, with a description."""
        self.rewriting = False
        """Whether `.cleaned` segments are being written for it; only one writer is allowed at a
        time."""
        self.kept_bytes = 0
        """The number of bytes cut off and kept, as of when it was opened with a mark."""
        self.snapshot_bytes = 0
        """The size in bytes of the producer snapshot with which it was opened."""

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
        contents: recovery.Contents | None = None,
        known: Known = Known(),
    ) -> Self:
        """Open the log in `directory`, which must exist; an empty directory becomes an empty log.

        `clean`: the log was closed by `close`, and `contents` are its contents, if known. Otherwise
        it is checked and repaired, and `progress` is called with the number of bytes checked.
        `known` helps to detect damage. Raises StorageError."""
        with storage_errors(directory, "open"):
            keeper = Keeper(disk, directory, known.high_watermark)
            found = recovery.find(disk, directory) if contents is None else contents.found
            if found.swaps:
                swap.complete(disk, directory, found.swaps, now_ms)
                found = recovery.find(disk, directory)
            for name in found.leftovers:
                with contextlib.suppress(FileNotFoundError):
                    disk.remove(f"{directory}/{name}")
            segments: list[Segment] = []
            for base, sizes in sorted(found.segments.items()):
                segment = Segment(disk, directory, base, sizes, now_ms)
                segment.modified_ms = found.modified_ms[base]
                segments.append(segment)
            if clean and known.end_offset >= 0:
                clean = False
            elif clean and known.must_look and segments:
                known, clean = _closed_end(found, segments, recovery_point, known)
            if not clean and segments:
                segments = _without_hole(keeper, found, segments, known)
                recovery_point = _checked_from(found, segments, recovery_point, config, known)
            if new := not segments:
                segments.append(Segment(disk, directory, log_start_offset, {}, now_ms))
                if known.damage and not keeper.mark and not found.is_marked:
                    keeper.found(known.damage, log_start_offset, log_start_offset)
            state = LogState(disk, directory, tp, config, topic_id, segments, now_ms)
            state.snapshots = found.snapshots
            state.has_epochs_file = found.has_epochs
            self = cls(state)
            if new:
                self.log_segments.create(segments[0])
                state.names_changed = state.changed = True
                state.producers = Producers(log_start_offset)
                state.replace_epochs(LeaderEpochs(), UNREAD_EPOCH, dirty=False)
                state.log_end_offset = log_start_offset
            elif clean:
                if contents is not None:
                    end = contents.end_offset
                    state.replace_epochs(contents.epochs, UNREAD_EPOCH, dirty=False)
                elif (end := recovery.clean_end_offset(found, segments, recovery_point)) is None:
                    end = recovery.walked_end_offset(segments[-1])
                state.log_end_offset = end
                self.snapshot_bytes = found.snapshot_bytes.get(end, 0)
                if self.snapshot_bytes == EMPTY_SNAPSHOT_BYTES:
                    state.producers = Producers(end)
            else:
                self._recover(found, recovery_point, progress, keeper, known)
            self.mark = keeper.mark
            if found.is_marked and keeper.mark is None:
                self.mark = read_mark(disk, directory)
            if self.mark is not None:
                self.kept_bytes = sum(kept_files(disk, directory).values())
            self.durability.start(min(recovery_point, state.log_end_offset))
            if log_start_offset > state.log_end_offset:
                self._begin_anew(log_start_offset, now_ms)
                return self
            state.begin_at(max(log_start_offset, state.segments[0].base_offset))
            if not clean and not new:
                self._rebuild(found, recovery_point)
            return self

    def _begin_anew(self, offset: int, now_ms: int) -> None:
        """Restart a log whose end is lost and whose remains were deleted: it begins at `offset`, as
        before, so that no offset is reused for another record. Raises StorageError."""
        logger.warning(
            "%s ends at %d, before the log start offset %d of the checkpoint: restarting it there, "
            "empty",
            self.tp,
            self.log_end_offset,
            offset,
        )
        self.restart_at(offset, now_ms)
        self.remove_deleted()
        self.flush(force=True)

    def _recover(
        self,
        found: recovery.Found,
        recovery_point: int,
        progress: recovery.Progress | None,
        keeper: Keeper,
        known: Known,
    ) -> None:
        """Check the segments, and cut off a torn tail. Raises OSError."""
        state = self.state
        state.changed = True
        interval = state.config.index_interval_bytes
        state.segments, self.recovered = recovery.recover(
            state.disk, state.directory, state.segments, recovery_point, interval, progress, keeper,
            dense=not (state.config.compact or known.compacted),
        )  # fmt: skip
        end, ended = self.recovered.end_offset, max(known.high_watermark, known.end_offset)
        epochs = self.recovered.epochs
        if keeper.mark is not None or end < ended:
            damage, lost = (keeper.mark or (Damage.SHORT,))[0], ended
            if keeper.mark is not None:
                lost = keeper.mark.lost_offset
            keeper.found(damage, end, lost, epochs[-1].epoch if epochs else NO_EPOCH)
        last = state.segments[-1]
        sizes = None if self.recovered.rewritten else found.segments[last.base_offset]
        last.allocate_indexes(self.log_segments.index_bytes_max, sizes)
        state.log_end_offset = self.recovered.end_offset

    def _rebuild(self, found: recovery.Found, recovery_point: int) -> None:
        """Rebuild producers, aborted transactions and leader epochs of a log that was not closed.
        Raises OSError."""
        state, recovered = self.state, self.recovered
        assert recovered is not None
        first = state.segments[recovery.suspect_from(state.segments, recovery_point)]
        if first is state.segments[0] and recovery.has_no_producers(found, recovered):
            # Their snapshots agree and can stay: in the recovery of a small log, removing them
            # would take the longest.
            self.durability.remove_snapshots(
                [offset for offset in state.snapshots if offset > state.log_end_offset]
            )
            state.producers = Producers(state.log_end_offset)
        else:
            self._rebuild_producers(first, recovered)
        if first.base_offset:
            epochs = state.read_epochs(first.base_offset)
            epochs.truncate_end(first.base_offset)  # the batches are more accurate
        else:  # the batches have all epochs
            epochs = LeaderEpochs()
            state.replace_epochs(epochs, UNREAD_EPOCH, dirty=state.has_epochs_file)
        for epoch, start_offset in recovered.epochs:
            if epoch > epochs.latest:
                epochs.assign(epoch, start_offset)
        epochs.truncate_start(state.log_start_offset)

    def _rebuild_producers(self, first: Segment, recovered: recovery.Cut) -> None:
        """Rebuild the producers from the snapshots before `first`, the first segment that was
        checked, and from its batches. Raises OSError."""
        state = self.state
        self.durability.remove_snapshots(
            [offset for offset in state.snapshots if offset > first.base_offset]
        )
        quiet_from = None if recovered.has_producers else first.base_offset
        state.producers, ended = state.load_producers(quiet_from)
        for transaction in ended:
            if transaction.last_offset >= first.base_offset:
                state.segment_of(transaction.last_offset).txn_index.append(transaction)

    def keep_from(self, offset: int) -> None:
        """Mark the log before it is truncated at `offset`, below committed records, and copy the
        data to be cut off. Raises StorageError."""
        with self.durability.lock, storage_errors(self.directory, "keep records"):
            keeper = Keeper(self.disk, self.directory, NO_OFFSET)
            keeper.keep(self.segments, offset)
            keeper.found(Damage.CUT, offset, self.log_end_offset)
            self.mark = keeper.mark
            self.kept_bytes = sum(kept_files(self.disk, self.directory).values())

    def mend(self, *, keep: bool = False) -> None:
        """Remove the mark once the log is in sync again, and with it the data that was cut off,
        unless `keep`. Raises StorageError."""
        with self.durability.lock, storage_errors(self.directory, "remove what was kept"):
            if not self.state.abandoned:
                unmark(self.disk, self.directory, keep=keep)
            self.mark = None

    def close(self) -> None:
        """Sync everything, so that the next `open` need not recover, and close the files. Raises
        StorageError."""
        durability = self.durability
        with durability.lock:
            # A new epoch alone needs no sync: 10,000 partitions get one at every start, and most
            # write nothing.
            if self._finish():
                durability.flush(force=True)
                if durability.recovery_point < self.state.log_end_offset:
                    raise self._no_room()
            self._close_files()

    def prepare_close(self) -> bool:
        """Write the data of a closed log without syncing it; returns whether `close` would sync
        anything. Syncing many logs at once is much faster. Nothing may be appended from now on.
        Raises StorageError."""
        with self.durability.lock:
            unsynced = self._finish()
            if unsynced and not self.durability.prepare():
                raise self._no_room()
            return unsynced

    def put_in_place(self) -> None:
        """Call after the file system was synced since `prepare_close`: temporary files replace
        others. Raises StorageError."""
        self.durability.put_in_place()

    def synced(self) -> None:
        """Call after the file system was synced since `put_in_place`: `close` then syncs
        nothing."""
        self.durability.synced()

    def _no_room(self) -> StorageError:
        return self.state.refuse("close", OSError(errno.ENOSPC, "no room for indexes"))

    def _close_files(self) -> None:
        for segment in self.state.segments:
            segment.close()

    def _finish(self) -> bool:
        """Finish the active segment, and write the producer snapshot; returns whether something is
        not synced yet."""
        state, durability = self.state, self.durability
        if state.dead is not None:
            return False
        self.log_segments.finish_swap()
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
        return changed

    def abandon(self) -> None:
        """Close the files of a log that will be deleted, after any flush in progress."""
        with self.durability.lock:
            self.state.abandoned = True
            self._close_files()

    def move_directory(self, directory: str) -> None:
        """Rename the partition's directory. Reads in progress continue. Raises StorageError."""
        state = self.state
        try:
            state.disk.rename(state.directory, directory)
        except OSError as e:
            raise state.die("rename the directory", e) from e
        for segment in state.segments:
            segment.moved(directory)
        state.directory = directory

    # --- properties ---

    @property
    def disk(self) -> Disk:
        """The disk with its files."""
        return self.state.disk

    @property
    def directory(self) -> str:
        """The partition's directory."""
        return self.state.directory

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
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
        self.log_segments.configure(config)
        self.appender.configure(config)

    @property
    def segments(self) -> list[Segment]:
        """The segments in order, never empty; the last is active. The list is replaced, never
        changed."""
        return self.state.segments

    @property
    def log_start_offset(self) -> int:
        """The first offset that a reader may request."""
        return self.state.log_start_offset

    @property
    def local_log_start_offset(self) -> int:
        """The first offset on this broker's disk (see `LogState`)."""
        return self.state.local_log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record that is appended."""
        return self.state.log_end_offset

    @property
    def recovery_point(self) -> int:
        """Recovery starts here: every record before this offset is on disk."""
        return self.durability.recovery_point

    @property
    def durable_offset(self) -> int:
        """Every record before this offset is on disk; never before the recovery point."""
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
    def last_batch_epoch(self) -> int:
        """The leader epoch of the last batch; if all records were deleted, that of the last batch
        before the log start; -1 if unknown."""
        end, epochs = self.state.log_end_offset, self.state.epochs
        return epochs.epoch_of(end - 1 if end > self.state.log_start_offset else end)

    @property
    def dead(self) -> StorageError | None:
        """The error after which its disk cannot be trusted; None if there is none."""
        return self.state.dead

    @dead.setter
    def dead(self, value: StorageError | None) -> None:
        self.state.dead = value

    @property
    def is_abandoned(self) -> bool:
        """Whether writes and syncs have stopped for good, because the log was deleted or closed."""
        return self.state.abandoned

    @property
    def created(self) -> bool:
        """Whether its file names may not be durable yet: it is new, or was not closed."""
        return self.durability.created

    @created.setter
    def created(self, value: bool) -> None:
        self.durability.created = value

    @property
    def first_dirty_offset(self) -> int | None:
        """The offset up to which the log is compacted; None if unknown."""
        return self.log_segments.first_dirty_offset

    @first_dirty_offset.setter
    def first_dirty_offset(self, value: int | None) -> None:
        self.log_segments.first_dirty_offset = value

    @property
    def starts_inside_segment(self) -> bool:
        """Whether the log start must be in the checkpoint: it differs from the first segment's
        base, or a crash could restore earlier segments."""
        state = self.state
        first = state.segments[0].base_offset
        return state.log_start_offset > (0 if state.names_changed else first)

    # --- delegation: documented in the parts ---

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
        run: Sequence[ValidatedBatch],
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

    def roll(self, now_ms: int) -> None:
        """See `LogSegments`."""
        self.log_segments.roll(now_ms)

    def roll_to(self, offset: int, now_ms: int) -> None:
        """See `LogSegments`."""
        self.log_segments.roll_to(offset, now_ms)

    def delete_before(self, offset: int, segments_max: int | None = None) -> int:
        """See `LogSegments`."""
        return self.log_segments.delete_before(offset, segments_max)

    def truncate_to(self, offset: int) -> bool:
        """See `LogSegments`."""
        return self.log_segments.truncate_to(offset)

    def restart_at(self, offset: int, now_ms: int | None = None) -> None:
        """See `LogSegments`."""
        self.log_segments.restart_at(offset, now_ms)

    def swap_in(self, base_offset: int, replaced: Sequence[Part], sizes: dict[str, int]) -> bool:
        """See `LogSegments`."""
        return self.log_segments.swap_in(base_offset, replaced, sizes)

    def step_swap(self) -> bool:
        """See `LogSegments`."""
        return self.log_segments.step_swap()

    @property
    def deleted_files(self) -> list[str]:
        """See `LogSegments`."""
        return self.log_segments.deleted_files

    def remove_deleted(self, names: list[str] | None = None) -> int:
        """See `LogSegments`."""
        return self.log_segments.remove_deleted(names)

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
        recheck: bool = False,
    ) -> FetchSlice:
        """Batches from the one that contains `offset`, up to but excluding the first one at or
        after `offset_end` (high watermark, last stable offset or log end).

        Returns at most `bytes_max` bytes, so the last batch may be incomplete. With `minimum_one`
        the first batch is always complete (KIP-74); without it, nothing is returned if the first
        does not fit. Unchecked data is checked, with `recheck` also data that comes from the disk
        again; the result ends before a damaged batch. Empty if `offset` is not below `offset_end`.
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
                segments, offset, bytes_max, offset_end, minimum_one, end, active_size, recheck
            )
        except OSError as e:
            raise StorageError(self.state.directory, "read", e, not is_fault(e)) from e

    def read_bytes(self, offset: int, bytes_max: int, offset_end: int) -> bytes:
        """The bytes that `read` finds. Raises the same errors."""
        found = self.read(offset, bytes_max, offset_end).slice
        with storage_errors(self.state.directory, "read"):
            return found.read()

    def read_nowait(
        self, offset: int, bytes_max: int, offset_end: int, *, minimum_one: bool = True
    ) -> FetchSlice | None:
        """Like `read`, but None if finding the position needs the disk; then call `read` in a
        thread."""
        if self.is_hot(offset):
            return self.read(offset, bytes_max, offset_end, minimum_one=minimum_one)
        try:
            with non_blocking():
                return self.read(
                    offset, bytes_max, offset_end, minimum_one=minimum_one, recheck=True
                )
        except WouldBlock:
            return None

    def is_hot(self, offset: int) -> bool:
        """Whether `read` finds the position of `offset` without I/O. (The slice's `resident` does
        the same for the bytes.)"""
        return offset >= self.state.log_end_offset or self.state.segments[-1].is_recent(offset)

    def offset_for_time(self, timestamp: int) -> FoundTimestamp | None:
        """The first record that is not earlier than `timestamp`; None if there is none. Raises
        StorageError."""
        with storage_errors(self.state.directory, "look up a time"):
            return lookup.offset_for_time(
                self.state.segments, timestamp, self.state.log_start_offset
            )

    def max_timestamp(self) -> FoundTimestamp | None:
        """The first record with the latest timestamp (KIP-734); None if no record has one. Raises
        StorageError."""
        with storage_errors(self.state.directory, "look up the latest time"):
            return lookup.max_timestamp(self.state.segments)

    def aborted_transactions(
        self, offset: int, fetched: FetchSlice, *, may_block: bool = True
    ) -> list[AbortedTxn]:
        """The aborted transactions that a read_committed reader must skip in `fetched`, read from
        `offset`.

        Raises StorageError; CorruptBatch if an index was lost and cannot be rebuilt; WouldBlock if
        an index must be rebuilt or is not in memory and the caller passed `may_block=False` (then
        call it again in a thread)."""
        if not fetched.length or all(segment.txn_index.empty for segment in self.state.segments):
            return []
        waiting = contextlib.nullcontext() if may_block else non_blocking()
        with storage_errors(self.state.directory, "read aborted transactions"), waiting:
            beyond = lookup.offset_beyond(self.state.segments, fetched, self.state.log_end_offset)
            if may_block:
                return aborted.between(self.state, offset, beyond)
            try:
                return lookup.aborted_transactions(self.state.segments, offset, beyond)
            except TxnIndexLost:
                raise WouldBlock from None

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset before which every transaction has ended, between the log start and
        `high_watermark`. The first call reads the producers, and may raise StorageError."""
        first = self.state.producers.first_unstable_offset(high_watermark)
        if first is None or first > high_watermark:
            return high_watermark
        return max(first, self.state.log_start_offset)

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return sum(segment.size for segment in self.state.segments)

    def expire_producers(self, now_ms: int) -> int:
        """Drop the producers that were idle for `producer.id.expiration.ms`; returns how many.

        Producers that are not loaded yet do not expire: their idle time starts when they are."""
        producers, after_ms = self.state.known_producers, self.config.producer_id_expiration_ms
        if producers is None:
            return 0
        return producers.expire(now_ms, after_ms)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch that wrote `offset`; -1 if unknown."""
        return self.state.epochs.epoch_of(offset)

    @property
    def latest_epoch(self) -> int:
        """The newest known leader epoch, or -1."""
        return self.state.epochs.latest

    def take_start(self, other: "Log") -> None:
        """Take the log start of another log of the same partition, of which this one is a copy."""
        self.state.log_start_offset = other.log_start_offset
        self.state.local_log_start_offset = other.local_log_start_offset

    def take_damage(self, other: "Log") -> None:
        """Take the mark of another log of the same partition, of which this one is a copy, and copy
        the data that was cut off from it. Raises StorageError."""
        with other.durability.lock, storage_errors(self.directory, "copy what was kept"):
            take_over(self.disk, self.directory, other.disk, other.directory)
            self.mark, self.kept_bytes = other.mark, other.kept_bytes

    def has_damage_of(self, other: "Log") -> bool:
        """Whether `take_damage` would change nothing."""
        return (self.mark, self.kept_bytes) == (other.mark, other.kept_bytes)

    def take_epochs(self, other: "Log") -> None:
        """Take the leader epochs of another log of the same partition, of which this one is a
        copy."""
        self.state.replace_epochs(LeaderEpochs(other.epochs.entries), UNREAD_EPOCH)

    def assign_epoch_start(self, epoch: int) -> None:
        """Record that this broker leads from the log end on, with `epoch`."""
        self.state.note_epoch(epoch, self.state.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """The end of `epoch`, or of the largest one below it, in this log (KIP-101, KIP-279)."""
        return self.state.epochs.end_offset(epoch, self.state.log_end_offset)


def _closed_end(
    found: recovery.Found, segments: list[Segment], recovery_point: int, known: Known
) -> tuple[Known, bool]:
    """Whether a log that only its directory marks as closed really ends there, or must be checked
    all the same. Raises OSError."""
    end = recovery.clean_end_offset(found, segments, recovery_point)
    if end is not None and segments[-1].size:
        with contextlib.suppress(CorruptBatch):
            if recovery.walked_end_offset(segments[-1]) >= end:
                return known, True
        return known._replace(end_offset=end), False
    return known, True


def _without_hole(
    keeper: Keeper, found: recovery.Found, segments: list[Segment], known: Known
) -> list[Segment]:
    """The segments; empty if the first is missing, since the others are not a log without it.
    Raises OSError."""
    first = segments[0].base_offset
    begins = min([b for b in (*found.widowed, known.first_offset) if b >= 0], default=first)
    if begins >= first:
        return segments
    keeper.found(Damage.MISSING_FILE, begins, max(segments[-1].base_offset, known.end_offset))
    for segment in segments:
        for path in keeper.drop(segment):
            with contextlib.suppress(FileNotFoundError):
                keeper.disk.remove(path)
    return []


def _checked_from(
    found: recovery.Found,
    segments: list[Segment],
    recovery_point: int,
    config: LogConfig,
    known: Known,
) -> int:
    """The offset from which to check the log: its start if it changed since it was closed, and an
    offset before the first missing segment. Raises OSError."""
    if not segments or known.end_offset >= 0:
        return 0
    holes = list(found.widowed)
    if not (config.compact or known.compacted):
        hole = recovery.hole_below(segments, recovery_point)
        holes += [] if hole is None else [hole]
    return min([recovery_point, *(hole - 1 for hole in holes)])
