"""The log of one partition: segments, what is known of its producers and leader epochs, and where it begins and ends.

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
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from pk.core.errors import ErrorCode, KafkaError
from pk.core.log import aborted as aborted_txns
from pk.core.log import lookup, swap
from pk.core.log.epochs import EpochEnd, LeaderEpochs
from pk.core.log.failures import StorageError, is_fault, storage_errors
from pk.core.log.file_slices import EMPTY
from pk.core.log.files import Data, WouldWait, at_once
from pk.core.log.index import TIME_ENTRY
from pk.core.log.lookup import FetchSlice, FoundTimestamp
from pk.core.log.producers import check_replicated
from pk.core.log.recovery import batches_between
from pk.core.log.segment import BatchPlace, Part, Segment
from pk.core.log.storage import INT32_MAX, StoredLog
from pk.core.log.txnindex import AbortedTxn, TxnIndexLost
from pk.core.record.batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    CorruptBatch,
    Record,
    Timestamps,
    assign,
    check_crc,
    iter_headers,
    records,
)

RECALLED_SEGMENTS = 2
"""How many of the segments before it are looked through for what a snapshot leaves out of a producer."""


class Origin(IntEnum):
    """Who wrote a batch: coordinators may write control batches, and their data is not judged by sequence."""

    CLIENT = 0
    COORDINATOR = 1


class Appended(NamedTuple):
    """Where a batch went. `log_append_time_ms` is -1 under CreateTime."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    rolled: bool = False
    """Whether a new segment was begun: time to flush the old one, off the loop."""


class Replicated(NamedTuple):
    """What `append_as_follower` took."""

    first_offset: int
    last_offset: int
    bytes: int
    rolled: bool


class _Run:
    """Batches of a leader's that go into one segment by one write."""

    __slots__ = ("bytes", "bytes_max", "headers", "position", "segment")

    segment: Segment
    position: int
    """Where in the data they begin."""

    def __init__(self) -> None:
        self.headers: list[BatchHeader] = []
        self.bytes = self.bytes_max = 0

    def begin(self, segment: Segment, position: int, bytes_max: int) -> None:
        """The next run; one more batch after `bytes_max` is not part of it."""
        self.segment, self.position, self.bytes, self.bytes_max = segment, position, 0, bytes_max


class Log(StoredLog):
    """See the top of this file. Made by `open`."""

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
        """Give the one batch in `batch` its offsets, in place, and write it.

        The records inside have been looked at by the caller, who passes on the timestamps found there. Raises
        KafkaError: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, what
        `Producers.check` raises, and StorageError.
        """
        if self.dead is not None:
            raise self.dead
        base, size, _, _, _, attributes, delta, _, latest, producer_id, _, sequence, count = header
        if size > self._message_bytes_max or size > self._segment_bytes:
            raise self._too_large(size)
        check_crc(batch, 0, header)
        if (
            delta != count - 1
            or count <= 0
            or size != len(batch)
            or (
                origin is Origin.CLIENT
                and (base or attributes & CONTROL_BIT or (producer_id >= 0 and sequence < 0))
            )
        ):
            raise _invalid(header, len(batch))
        if timestamps is not None:
            latest = timestamps.latest
        marker = None
        if producer_id >= 0:
            marker = self._judge(batch, header)
            if isinstance(marker, Appended):
                return marker
        base_offset = self.log_end_offset
        last_offset = base_offset + delta
        if self._append_time:
            latest = log_append_time_ms = now_ms
            assign(batch, 0, base_offset, leader_epoch, now_ms)
        else:
            log_append_time_ms = -1
            if (
                latest > now_ms + self._after_max_ms
                or attributes & LOG_APPEND_TIME_BIT
                or now_ms > self._before_max_ms
            ):
                self._check_timestamps(header, timestamps, now_ms)
            if latest == header.max_timestamp:
                assign(batch, 0, base_offset, leader_epoch)
            else:
                assign(batch, 0, base_offset, leader_epoch, max_timestamp=latest)
        segment, rolled = self.segments[-1], False
        if not segment.active:
            self._activate(segment)
        if self._must_roll(segment, size, last_offset, latest, now_ms):
            segment, rolled = self._roll(now_ms), True
        self._write(segment, batch, base_offset, last_offset, latest, leader_epoch)
        if producer_id >= 0:
            if marker is None:
                self.producers.update(header, base_offset, latest, now_ms)
            else:
                self._end_transaction(segment, header, marker, last_offset, now_ms)
        return Appended(
            base_offset, last_offset, log_append_time_ms, self.log_start_offset, False, rolled
        )

    def append_as_follower(
        self, data: Data, now_ms: int, *, epoch_max: int = INT32_MAX
    ) -> Replicated:
        """Write the whole batches in `data` as the leader gave them, offsets and epochs included; one that is cut off
        at the end is left out, and so is all from the first batch on that a later leader than that of `epoch_max` wrote.
        Batches that go into one segment are one write. Raises CorruptBatch, StorageError, KafkaError: INVALID_RECORD for a
        marker that is none, OFFSET_OUT_OF_RANGE below the end of the log. Batches before the one that is refused are written.
        """
        if self.dead is not None:
            raise self.dead
        run, written, rolled = _Run(), 0, False
        first, end = -1, self.log_end_offset
        with memoryview(data) as view:
            try:
                for position, header in iter_headers(view):
                    if header.leader_epoch > epoch_max:
                        break
                    if header.base_offset < end:
                        raise KafkaError(
                            ErrorCode.OFFSET_OUT_OF_RANGE,
                            f"{self.tp} ends at {end}, the batch begins at {header.base_offset}",
                        )
                    check_replicated(view, position, header)
                    if run.headers and self._ends_run(run, header, now_ms):
                        self._write_run(view, run, now_ms)
                    if not run.headers:
                        rolled |= self._begin_run(run, position, header, now_ms)
                    run.headers.append(header)
                    run.bytes += header.size
                    first = header.base_offset if first < 0 else first
                    end = header.next_offset
                    written += header.size
            finally:
                if run.headers:
                    self._write_run(view, run, now_ms)
        return Replicated(first, self.log_end_offset - 1, written, rolled)

    def _begin_run(self, run: "_Run", position: int, header: BatchHeader, now_ms: int) -> bool:
        """Where the next batches go; whether that is a new segment."""
        segment, rolled = self.segments[-1], False
        if not segment.active:
            self._activate(segment)
        last_offset, latest = header.last_offset, header.max_timestamp
        if self._must_roll(segment, header.size, last_offset, latest, now_ms):
            far = last_offset - self.log_end_offset > INT32_MAX
            segment, rolled = self._roll(now_ms, header.base_offset if far else None), True
        room = max(self._index_bytes_max - segment.index_bytes, 0) // TIME_ENTRY.size
        run.begin(segment, position, room * max(self._interval, 1) if segment.size else 0)
        return rolled

    def _ends_run(self, run: "_Run", header: BatchHeader, now_ms: int) -> bool:
        """Whether the batch does not belong to the same write: the segment is full, its indexes may be, or the times with
        which it rolls are not known before its first batch is written."""
        return run.bytes > run.bytes_max or self._must_roll(
            run.segment, run.bytes + header.size, header.last_offset, header.max_timestamp, now_ms
        )

    def _write_run(self, view: memoryview, run: "_Run", now_ms: int) -> None:
        """Write batches that lie one after another in `view`, and take them in."""
        segment, position = run.segment, run.segment.size
        headers, run.headers = run.headers, []
        try:
            with view[run.position : run.position + run.bytes] as batches:
                segment.file.pwrite(batches, position)
            for header in headers:
                place = BatchPlace(header.last_offset, header.base_offset, position)
                segment.note(place, header.size, header.max_timestamp, self._interval)
                position += header.size
        except OSError as e:
            self._undo(segment, segment.size, e)
        segment.size = position
        self.log_end_offset = headers[-1].next_offset
        at = run.position
        for header in headers:
            if header.leader_epoch != self._latest_epoch:
                self._note_epoch(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self._take_producer(segment, view[at : at + header.size], header, now_ms)
            at += header.size

    def _take_producer(
        self, segment: Segment, batch: memoryview, header: BatchHeader, now_ms: int
    ) -> None:
        if not header.attributes & CONTROL_BIT:
            self.producers.update(header, header.base_offset, header.max_timestamp, now_ms)
            return
        marker = next(records(batch, header), None)
        if marker is not None:
            self._end_transaction(segment, header, marker, header.last_offset, now_ms)

    def _judge(
        self, batch: bytearray | memoryview, header: BatchHeader
    ) -> Appended | Record | None:
        """A batch with a producer id: the answer to a duplicate, the record of a marker, or None. Raises KafkaError."""
        if header.attributes & CONTROL_BIT:
            marker = next(records(batch, header))
            self.producers.check_marker(header, marker)
            return marker
        if header.base_sequence < 0:
            self.producers.check_epoch(header)
            return None
        try:
            repeated = self.producers.check(header)
        except KafkaError as e:
            if e.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or not self._recall(header):
                raise
            repeated = self.producers.check(header)
        if repeated is None:
            return None
        time_ms = repeated.timestamp if self._append_time else -1
        first, last = repeated.first_offset, repeated.last_offset
        return Appended(first, last, time_ms, self.log_start_offset, True)

    def _recall(self, header: BatchHeader) -> bool:
        """Whether more is known of a producer now. What a snapshot leaves out of its last five batches is read from the
        log when one of them seems to be sent again: a log that was closed well is opened without being read."""
        state = self.producers.get(header.producer_id)
        if state is None or not state.abridged or state.epoch != header.producer_epoch:
            return False
        end = state.batches[0].first_offset
        before = [segment for segment in self.segments if segment.base_offset < end]
        start = before[max(len(before) - RECALLED_SEGMENTS, 0)].base_offset if before else end
        with storage_errors(self.directory, "read"):
            headers = [h for h, _ in batches_between(self.segments, start, end)]
        self.producers.recall(header.producer_id, headers)
        return True

    def _write(
        self,
        segment: Segment,
        batch: Data,
        base_offset: int,
        last_offset: int,
        latest: int,
        leader_epoch: int,
    ) -> None:
        position = segment.size
        try:
            segment.append(batch, base_offset, last_offset, latest, self._interval)
        except OSError as e:
            self._undo(segment, position, e)
        self.log_end_offset = last_offset + 1
        if leader_epoch != self._latest_epoch:
            self._note_epoch(leader_epoch, base_offset)

    def _end_transaction(
        self, segment: Segment, header: BatchHeader, marker: Record, offset: int, now_ms: int
    ) -> None:
        aborted = self.producers.update_marker(header, marker, offset, now_ms)
        if aborted is not None:
            # The first entry makes the file, whose name is to be as durable as the marker.
            self.names_changed |= segment.txn_index.empty
            try:
                segment.txn_index.append(aborted)
            except OSError as e:
                if not (refused := self._refuse("write the index of aborts", e)).undone:
                    raise refused from e  # else it is made anew when there is room

    def _undo(self, segment: Segment, position: int, cause: OSError) -> None:
        """Take back a write that failed; raises, always."""
        with contextlib.suppress(OSError):
            segment.truncate_bytes(position)
            if not is_fault(cause):
                raise StorageError(self.directory, "append", cause, undone=True) from cause
        raise self._die("append", cause) from cause

    def _too_large(self, size: int) -> KafkaError:
        if size > self._message_bytes_max:
            return KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {size} bytes, {self.tp} takes {self._message_bytes_max} (max.message.bytes)",
            )
        return KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {size} bytes, a segment of {self.tp} takes {self._segment_bytes} (segment.bytes)",
        )

    def _check_timestamps(
        self, header: BatchHeader, timestamps: Timestamps | None, now_ms: int
    ) -> None:
        if header.attributes & LOG_APPEND_TIME_BIT:
            raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a producer may not set log append time")
        latest = header.max_timestamp if timestamps is None else timestamps.latest
        earliest = latest if timestamps is None else timestamps.earliest
        for timestamp in (earliest, latest):
            if timestamp != -1 and not (
                now_ms - self._before_max_ms <= timestamp <= now_ms + self._after_max_ms
            ):
                raise KafkaError(
                    ErrorCode.INVALID_TIMESTAMP,
                    f"timestamp {timestamp} is out of the range that {self.tp} takes at {now_ms}",
                )

    def roll_due(self, now_ms: int) -> bool:
        """Whether the active segment is to be ended for its age, with nothing to append."""
        segment = self.segments[-1]
        if segment.size and not segment.active:
            self._activate(segment)
        return self._must_roll(segment, 0, self.log_end_offset, now_ms, now_ms)

    def roll(self, now_ms: int) -> None:
        """Begin a new segment; nothing happens while the active one is empty. Raises StorageError."""
        if self.dead is not None:
            raise self.dead
        self._roll(now_ms)

    @property
    def is_abandoned(self) -> bool:
        """Whether nothing is written or synced any more: the log is deleted, or closed."""
        return self._abandoned

    @property
    def deleted_files(self) -> list[str]:
        """The names of the files that wait for `remove_deleted`."""
        return list(self._deleted)

    def remove_deleted(self, names: list[str] | None = None) -> int:
        """Remove the files of dropped segments: `names`, which were `deleted_files` when `file.delete.delay.ms` began,
        or all. How many those were. In a thread, perhaps. Raises StorageError."""
        with self._flush_lock:
            if self._abandoned:
                return 0  # the whole directory goes
            due = [n for n in (self._deleted if names is None else names) if n in self._deleted]
            try:
                for name in due:
                    self._deleted.pop(name, None)
                    with contextlib.suppress(FileNotFoundError):  # somebody was quicker
                        self.disk.remove(f"{self.directory}/{name}")
            except OSError as e:
                raise self._die("remove a segment", e) from e
        return len(due)

    def roll_to(self, offset: int, now_ms: int) -> None:
        """Begin a new segment at `offset`, which is not below the end: what lies between has no records any more.
        Raises StorageError."""
        if self.dead is not None:
            raise self.dead
        assert offset >= self.log_end_offset
        self._roll(now_ms, offset)

    def swap_in(self, base_offset: int, replaced: Sequence[Part], sizes: dict[str, int]) -> bool:
        """Let the compacted segment whose `.cleaned` files are durable take the place of `replaced`; False, and nothing
        done, where those are not the log's any more (retention, a cut). On the loop; `step_swap` goes on from here.
        Raises StorageError."""
        if self.dead is not None:
            raise self.dead
        segments = self.segments
        at = lookup.segment_index(segments, base_offset)
        old = segments[at : at + len(replaced)]
        there = [(segment.base_offset, segment.size, segment.active) for segment in old]
        if (
            self._abandoned
            or at + len(replaced) >= len(segments)
            or there != [(part.base_offset, part.size, False) for part in replaced]
        ):
            return False
        self._finish_swap()
        new = Segment(self.disk, self.directory, base_offset, sizes, self.opened_ms, swap.CLEANED)
        new.modified_ms = old[-1].modified_ms
        try:
            swap.begin(new, self.directory)
        except OSError as e:
            raise self._die("swap segments", e) from e
        self.segments = [*segments[:at], new, *segments[at + len(old) :]]
        self._swap = swap.Swap(
            new, old, self._drop, lambda: self.directory, lambda s: s in self.segments
        )
        self.names_changed = self._touched = True
        return True

    def step_swap(self) -> bool:
        """Go on with a swap, once the directory was synced; False where there is nothing to do. On the loop. Raises
        StorageError."""
        if self._swap is None or self._swap.done or self._abandoned:
            self._swap = None
            return False
        try:
            self._swap.step()
        except OSError as e:
            if self._abandoned:
                return False
            raise self._die("swap segments", e) from e
        return True

    def sync_names(self) -> None:
        """Make the names in the log's directory durable. In a thread, perhaps. Raises StorageError."""
        try:
            self.disk.sync_dir(self.directory)
        except OSError as e:
            if not self._abandoned:
                raise self._die("sync a directory", e) from e

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
        segments = self.segments
        active_size = segments[-1].size
        end = self.log_end_offset
        if offset < self.log_start_offset or offset > end:
            raise self._out_of_range(offset)
        if offset >= offset_end or offset == end:
            return FetchSlice(EMPTY, offset)
        try:
            return lookup.read(
                segments, offset, bytes_max, offset_end, minimum_one, end, active_size, wary
            )
        except OSError as e:
            raise StorageError(self.directory, "read", e, not is_fault(e)) from e

    def read_bytes(self, offset: int, bytes_max: int, offset_end: int) -> bytes:
        """What `read` finds, in hand. Raises as it does."""
        found = self.read(offset, bytes_max, offset_end).slice
        with storage_errors(self.directory, "read"):
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
        return offset >= self.log_end_offset or self.segments[-1].is_recent(offset)

    def offset_for_time(self, timestamp: int) -> FoundTimestamp | None:
        """The first record that is not earlier than `timestamp`; None if all are. Raises StorageError."""
        with storage_errors(self.directory, "look up a time"):
            return lookup.offset_for_time(self.segments, timestamp, self.log_start_offset)

    def max_timestamp(self) -> FoundTimestamp | None:
        """The first record with the latest timestamp (KIP-734); None if none has one. Raises StorageError."""
        with storage_errors(self.directory, "look up the latest time"):
            return lookup.max_timestamp(self.segments)

    def aborted_transactions(
        self, offset: int, fetched: FetchSlice, *, patient: bool = True
    ) -> list[AbortedTxn]:
        """The aborted transactions that a reader of committed records must leave out of `fetched`, which it read from
        `offset`. Raises StorageError, CorruptBatch where an index was lost and cannot be made anew, and WouldWait if it
        would have to be, or lies cold, and the caller is not `patient`: then in a thread."""
        if not fetched.length or all(segment.txn_index.empty for segment in self.segments):
            return []
        waiting = contextlib.nullcontext() if patient else at_once()
        with storage_errors(self.directory, "read aborted transactions"), waiting:
            beyond = lookup.offset_beyond(self.segments, fetched, self.log_end_offset)
            if patient:
                return aborted_txns.between(self, offset, beyond)
            try:
                return lookup.aborted_transactions(self.segments, offset, beyond)
            except TxnIndexLost:
                raise WouldWait from None

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where every transaction is decided, at most the high watermark, and the start of the log where one is open
        that began before. Raises StorageError at first use."""
        first = self.producers.first_unstable_offset(high_watermark)
        if first is None or first > high_watermark:
            return high_watermark
        return max(first, self.log_start_offset)

    @property
    def size(self) -> int:
        """Bytes of records, over all segments."""
        return sum(segment.size for segment in self.segments)

    def expire_producers(self, now_ms: int) -> int:
        """Forget the producers that were idle for `producer.id.expiration.ms`; how many. Of those that were never read
        none is: their time counts from then on."""
        producers, after_ms = self._producers, self._config.producer_id_expiration_ms
        return 0 if producers is None else producers.expire(now_ms, after_ms)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch that wrote `offset`, or -1 if that is not known."""
        return self.epochs.epoch_of(offset)

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch that is known, or -1."""
        return self.epochs.latest

    def take_epochs(self, other: "Log") -> None:
        """Take the leader epochs of another log of the same partition, which this one is a copy of."""
        self._epochs = LeaderEpochs(other.epochs.entries)
        self._epochs.dirty = True
        self._latest_epoch = -2

    def assign_epoch_start(self, epoch: int) -> None:
        """Note that this broker leads from here on, under `epoch`."""
        self._note_epoch(epoch, self.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Where `epoch`, or the largest one below it, ends in this log (KIP-101, KIP-279)."""
        return self.epochs.end_offset(epoch, self.log_end_offset)


def _invalid(header: BatchHeader, given: int) -> KafkaError:
    if header.size != given:
        return CorruptBatch(f"a batch of {header.size} bytes in {given}")
    if header.attributes & CONTROL_BIT:
        why = "clients are not allowed to write control records"
    elif header.base_offset:
        why = f"a producer's base offset is 0, not {header.base_offset}"
    elif header.producer_id >= 0 and header.base_sequence < 0:
        why = f"producer id {header.producer_id} with sequence {header.base_sequence}"
    else:
        why = f"{header.count} records, but the last has offset delta {header.last_offset_delta}"
    return KafkaError(ErrorCode.INVALID_RECORD, why)
