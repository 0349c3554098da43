"""Appends batches to a log: a leader's, which get their offsets here, and a follower's, which
already have them.

A batch is checked (size, CRC, its producer's sequence), gets its position,
and is written. Only then does the log end move and the producer's state change. A failed write is
undone.
"""

import contextlib
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from pk.core.errors import ErrorCode, KafkaError, without_frames
from pk.core.log.config import LOG_APPEND_TIME, LogConfig
from pk.core.log.failures import StorageError, is_fault, storage_errors
from pk.core.log.files import PIECES_MAX, Data
from pk.core.log.index import TIME_ENTRY
from pk.core.log.log_segments import LogSegments
from pk.core.log.recovery import batches_between
from pk.core.log.segment import BatchPosition, Segment
from pk.core.log.state import INT32_MAX, LogState
from pk.core.record.batch import (
    ATTRIBUTES_AT,
    CONTROL_BIT,
    SEQUENCES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatch,
    Record,
    Timestamps,
    assign,
    assign_one,
    check_crc,
    crc_of,
    iter_headers,
    records,
)
from pk.core.record.build import ControlType, control_type, coordinator_epoch
from pk.core.record.validation import ValidatedBatch
from pk.core.values import NO_EPOCH

_NEVER_MS: Final = 1 << 63
"""A timestamp later than any other."""

RECALLED_SEGMENTS: Final = 2
"""How many of the preceding segments to search for the batches of a producer that its snapshot
leaves out."""


class Origin(IntEnum):
    """The writer of a batch. Coordinators may write control batches, and their sequences are not
    checked."""

    CLIENT = 0
    COORDINATOR = 1


class Appended(NamedTuple):
    """The position of an appended batch. `log_append_time_ms` is -1 under CreateTime."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    rolled: bool = False
    """Whether a new segment was started, so that the previous one should be flushed in a thread."""


class Replicated(NamedTuple):
    """The result of `append_as_follower`."""

    first_offset: int
    last_offset: int
    bytes: int
    rolled: bool


class _Stretch:
    """Batches from a leader that are written to one segment in one write."""

    __slots__ = ("bytes", "bytes_max", "headers", "position", "segment")

    segment: Segment
    position: int
    """The start of the batches in the data."""

    def __init__(self) -> None:
        self.headers: list[BatchHeader] = []
        self.bytes = self.bytes_max = 0

    def begin(self, segment: Segment, position: int, bytes_max: int) -> None:
        """Begin the next stretch, which ends after the batch that exceeds `bytes_max`."""
        self.segment, self.position, self.bytes, self.bytes_max = segment, position, 0, bytes_max


class Appender:
    """Appends to one log, on the event loop."""

    __slots__ = (
        "_append_time",
        "_interval",
        "_log",
        "_log_segments",
        "_message_bytes_max",
    )

    def __init__(self, log: LogState, log_segments: LogSegments) -> None:
        self._log = log
        self._log_segments = log_segments
        self.configure(log.config)

    def configure(self, config: LogConfig) -> None:
        """Apply new settings, from the next append on."""
        self._interval = config.index_interval_bytes
        self._message_bytes_max = config.max_message_bytes
        self._append_time = config.message_timestamp_type == LOG_APPEND_TIME

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
        """Assign offsets to the single batch in `batch`, in place, and write it.

        The batch is a client's `ValidatedBatch`, with the timestamps found in it, or one that a
        coordinator built. Its CRC is checked again immediately before the write. Raises KafkaError:
        MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, CORRUPT_MESSAGE, and the errors of
        `Producers.check`; and StorageError.
        """
        log = self._log
        if log.dead is not None:
            raise without_frames(log.dead)
        size, producer_id = header.size, header.producer_id
        if size > self._message_bytes_max or size > self._log_segments.segment_bytes:
            raise self._too_large(size)
        if size != len(batch):
            raise CorruptBatch(f"a batch of {size} bytes in {len(batch)}")
        check_crc(batch, 0, header)
        latest = header.max_timestamp if timestamps is None else timestamps.latest
        marker = None
        if producer_id >= 0:
            marker = self._check_producer(batch, header, origin)
            if isinstance(marker, Appended):
                return marker
        base_offset = log.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        if self._append_time:
            latest = log_append_time_ms = now_ms
            assign(batch, 0, base_offset, leader_epoch, now_ms)
        else:
            log_append_time_ms = -1
            if latest == header.max_timestamp:
                assign(batch, 0, base_offset, leader_epoch)
            else:
                assign(batch, 0, base_offset, leader_epoch, max_timestamp=latest)
        segment, rolled = log.segments[-1], False
        if not segment.active:
            self._log_segments.activate(segment)
        if self._log_segments.must_roll(segment, size, last_offset, latest, now_ms):
            segment, rolled = self._log_segments.begin_segment(now_ms), True
        self._write(segment, batch, base_offset, last_offset, latest, leader_epoch)
        if producer_id >= 0:
            if marker is None:
                log.producers.update(header, base_offset, latest, now_ms)
            else:
                self._end_transaction(segment, header, marker, last_offset, now_ms)
        return Appended(
            base_offset, last_offset, log_append_time_ms, log.log_start_offset, False, rolled
        )

    def append_run(
        self,
        run: Sequence[ValidatedBatch],
        leader_epoch: int,
        now_ms: int,
    ) -> list[int]:
        """Append the first batches of `run` that need no special treatment, in one write, and
        return their base offsets.

        The result is the same as if `append_as_leader` had appended each of them. The run ends
        before the first batch that would be refused, is a duplicate, belongs to a transaction, or
        begins a segment: pass that batch to `append_as_leader`. Nothing is appended to a log that
        sets the timestamps itself, or whose active segment is empty or has not been written to
        since the log was opened. If it raises StorageError, no batch was appended, and the base
        offsets in `run` are 0 again.
        """
        log, log_segments = self._log, self._log_segments
        if log.dead is not None:
            raise without_frames(log.dead)
        segment = log.segments[-1]
        if self._append_time or not segment.active:
            return []
        position, first_timestamp = segment.size, segment.first_timestamp
        if not position or first_timestamp is None:
            return []
        latest_max = _NEVER_MS
        if first_timestamp >= 0:
            latest_max = first_timestamp + log_segments.roll_ms
        elif now_ms - segment.created_ms > log_segments.roll_ms:
            return []
        if segment.index_bytes >= log_segments.index_bytes_max:
            return []
        # An index entry covers more than `_interval` bytes, but one may already be due.
        entries = (log_segments.index_bytes_max - segment.index_bytes) // TIME_ENTRY.size - 2
        position_max = position + max(entries, 0) * max(self._interval, 1)
        base_offset, offset_max = log.log_end_offset, segment.base_offset + INT32_MAX
        size_max, end_max = self._message_bytes_max, log_segments.segment_bytes
        following: dict[int, tuple[int, int]] = {}
        batches: list[bytearray | memoryview] = []
        places: list[BatchPosition] = []
        timestamps: list[int] = []
        offsets: list[int] = []
        for batch, header, (_, latest) in run if len(run) <= PIECES_MAX else run[:PIECES_MAX]:
            (
                _,
                size,
                _,
                _,
                crc,
                attributes,
                delta,
                _,
                stated,
                producer_id,
                epoch,
                sequence,
                count,
            ) = header
            last_offset = base_offset + delta
            if (
                size > size_max
                or position > position_max
                or position + size > end_max
                or last_offset > offset_max
                or latest != stated
                or latest > latest_max
                or attributes & TRANSACTIONAL_BIT
                or crc_of(batch[ATTRIBUTES_AT:]) != crc
            ):
                break
            if producer_id >= 0:
                if (expected := following.get(producer_id)) is None:
                    if not self._is_next(batch, header):
                        break
                elif expected != (epoch, sequence):
                    break
                following[producer_id] = epoch, (sequence + count) % SEQUENCES
            assign_one(batch, base_offset, leader_epoch)
            batches.append(batch)
            places.append(BatchPosition(last_offset, base_offset, position))
            timestamps.append(latest)
            offsets.append(base_offset)
            position += size
            base_offset = last_offset + 1
        if batches:
            try:
                segment.append_run(batches, places, timestamps, self._interval)
            except OSError as e:
                for batch in batches:
                    assign_one(batch, 0, NO_EPOCH)
                self._undo(segment, places[0].position, e)
            log.log_end_offset = base_offset
            if leader_epoch != log.noted_epoch:
                log.note_epoch(leader_epoch, places[0].base_offset)
            if following:
                update = log.producers.update
                for (_, header, _), where, latest in zip(run, places, timestamps, strict=False):
                    if header.producer_id >= 0:
                        update(header, where.base_offset, latest, now_ms)
        return offsets

    def _is_next(self, batch: bytearray | memoryview, header: BatchHeader) -> bool:
        """Return whether a client's batch directly follows the previous batch of its producer."""
        try:
            return header.base_sequence >= 0 and self._check_producer(batch, header) is None
        except KafkaError:
            return False

    def append_as_follower(
        self, data: Data, now_ms: int, *, epoch_max: int = INT32_MAX
    ) -> Replicated:
        """Write the whole batches in `data` unchanged, including the offsets and epochs from the
        leader. Ignores an incomplete batch at the end, and everything from the first batch of an
        epoch above `epoch_max` on. The batches for one segment are written in one write. If a batch
        is refused, the batches before it are written. Raises CorruptBatch, StorageError, and
        KafkaError: INVALID_RECORD for an invalid marker, OFFSET_OUT_OF_RANGE for offsets below the
        log end."""
        log = self._log
        if log.dead is not None:
            raise without_frames(log.dead)
        stretch, written, rolled = _Stretch(), 0, False
        first, end = -1, log.log_end_offset
        with memoryview(data) as view:
            try:
                for position, header in iter_headers(view):
                    if header.leader_epoch > epoch_max:
                        break
                    if header.base_offset < end:
                        raise KafkaError(
                            ErrorCode.OFFSET_OUT_OF_RANGE,
                            f"{log.tp} ends at {end}, the batch begins at {header.base_offset}",
                        )
                    _check_replicated(view, position, header)
                    if stretch.headers and self._ends_stretch(stretch, header, now_ms):
                        self._write_stretch(view, stretch, now_ms)
                    if not stretch.headers:
                        rolled |= self._begin_stretch(stretch, position, header, now_ms)
                    stretch.headers.append(header)
                    stretch.bytes += header.size
                    first = header.base_offset if first < 0 else first
                    end = header.next_offset
                    written += header.size
            finally:
                if stretch.headers:
                    self._write_stretch(view, stretch, now_ms)
        return Replicated(first, log.log_end_offset - 1, written, rolled)

    def _begin_stretch(
        self, stretch: _Stretch, position: int, header: BatchHeader, now_ms: int
    ) -> bool:
        """Choose the segment for the next batches. Returns whether it is a new one."""
        log = self._log
        segment, rolled = log.segments[-1], False
        if not segment.active:
            self._log_segments.activate(segment)
        last_offset, latest = header.last_offset, header.max_timestamp
        if self._log_segments.must_roll(segment, header.size, last_offset, latest, now_ms):
            far = last_offset - log.log_end_offset > INT32_MAX
            segment, rolled = (
                self._log_segments.begin_segment(now_ms, header.base_offset if far else None),
                True,
            )
        room = max(self._log_segments.index_bytes_max - segment.index_bytes, 0) // TIME_ENTRY.size
        stretch.begin(segment, position, room * max(self._interval, 1) if segment.size else 0)
        return rolled

    def _ends_stretch(self, stretch: _Stretch, header: BatchHeader, now_ms: int) -> bool:
        """Return whether the batch needs another write: the segment is full, its indexes may be, or
        the timestamps that decide about rolling are not known before the segment's first batch is
        written."""
        return stretch.bytes > stretch.bytes_max or self._log_segments.must_roll(
            stretch.segment,
            stretch.bytes + header.size,
            header.last_offset,
            header.max_timestamp,
            now_ms,
        )

    def _write_stretch(self, view: memoryview, stretch: _Stretch, now_ms: int) -> None:
        """Write consecutive batches in `view`, and update the log's state."""
        log = self._log
        segment, position = stretch.segment, stretch.segment.size
        headers, stretch.headers = stretch.headers, []
        try:
            with view[stretch.position : stretch.position + stretch.bytes] as batches:
                segment.file.pwrite(batches, position)
            for header in headers:
                place = BatchPosition(header.last_offset, header.base_offset, position)
                segment.note(place, header.size, header.max_timestamp, self._interval)
                position += header.size
        except OSError as e:
            self._undo(segment, segment.size, e)
        segment.size = position
        log.log_end_offset = headers[-1].next_offset
        at = stretch.position
        for header in headers:
            if header.leader_epoch != log.noted_epoch:
                log.note_epoch(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self._take_producer(segment, view[at : at + header.size], header, now_ms)
            at += header.size

    def _take_producer(
        self, segment: Segment, batch: memoryview, header: BatchHeader, now_ms: int
    ) -> None:
        if not header.attributes & CONTROL_BIT:
            self._log.producers.update(header, header.base_offset, header.max_timestamp, now_ms)
            return
        marker = next(records(batch, header), None)
        if marker is not None:
            self._end_transaction(segment, header, marker, header.last_offset, now_ms)

    def _check_producer(
        self,
        batch: bytearray | memoryview,
        header: BatchHeader,
        origin: Origin = Origin.CLIENT,
    ) -> Appended | Record | None:
        """Check a batch with a producer id. Returns the result for a duplicate, the record of a
        marker, or None. The sequences of a coordinator's records in a producer's transaction have
        no meaning, so only the epoch is checked. Raises KafkaError."""
        log = self._log
        if header.attributes & CONTROL_BIT:
            marker = next(records(batch, header))
            log.producers.check_marker(header, marker)
            return marker
        if header.base_sequence < 0 or origin is Origin.COORDINATOR:
            log.producers.check_epoch(header)
            return None
        try:
            repeated = log.producers.check(header)
        except KafkaError as e:
            if e.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or not self._recall_batches(header):
                raise
            repeated = log.producers.check(header)
        if repeated is None:
            return None
        time_ms = repeated.timestamp if self._append_time else -1
        first, last = repeated.first_offset, repeated.last_offset
        return Appended(first, last, time_ms, log.log_start_offset, True)

    def _recall_batches(self, header: BatchHeader) -> bool:
        """Read the batches of a producer that its snapshot leaves out from the log, because a
        client's batch may repeat one of its last five. Returns False if the snapshot leaves out
        none. So a log that was closed cleanly can be opened without reading its batches."""
        log = self._log
        state = log.producers.get(header.producer_id)
        if state is None or not state.abridged or state.epoch != header.producer_epoch:
            return False
        end = state.batches[0].first_offset
        before = [segment for segment in log.segments if segment.base_offset < end]
        start = before[max(len(before) - RECALLED_SEGMENTS, 0)].base_offset if before else end
        with storage_errors(log.directory, "read"):
            headers = [h for h, _ in batches_between(log.segments, start, end)]
        log.producers.recall(header.producer_id, headers)
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
        log = self._log
        position = segment.size
        try:
            segment.append(batch, base_offset, last_offset, latest, self._interval)
        except OSError as e:
            self._undo(segment, position, e)
        log.log_end_offset = last_offset + 1
        if leader_epoch != log.noted_epoch:
            log.note_epoch(leader_epoch, base_offset)

    def _end_transaction(
        self, segment: Segment, header: BatchHeader, marker: Record, offset: int, now_ms: int
    ) -> None:
        log = self._log
        aborted = log.producers.update_marker(header, marker, offset, now_ms)
        if aborted is not None:
            # The first entry creates the file, whose name must be as durable as the marker.
            log.names_changed |= segment.txn_index.empty
            try:
                segment.txn_index.append(aborted)
            except OSError as e:
                if not (refused := log.refuse("write the index of aborts", e)).undone:
                    raise refused from e  # otherwise it is rebuilt once there is room

    def _undo(self, segment: Segment, position: int, cause: OSError) -> None:
        """Undo a failed write. Always raises."""
        log = self._log
        with contextlib.suppress(OSError):
            segment.truncate_bytes(position)
            if not is_fault(cause):
                raise StorageError(log.directory, "append", cause, undone=True) from cause
        raise log.die("append", cause) from cause

    def _too_large(self, size: int) -> KafkaError:
        log = self._log
        if size > self._message_bytes_max:
            return KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                (
                    f"a batch of {size} bytes, {log.tp} takes {self._message_bytes_max} "
                    "(max.message.bytes)"
                ),
            )
        return KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            (
                f"a batch of {size} bytes, a segment of {log.tp} takes "
                f"{self._log_segments.segment_bytes} (segment.bytes)"
            ),
        )


def _check_replicated(batches: memoryview, position: int, header: BatchHeader) -> None:
    """Check a leader's batch at `position` before it is written: its CRC, and the record of a
    marker, which the caller applies afterwards. Raises CorruptBatch, KafkaError(INVALID_RECORD)."""
    check_crc(batches, position, header)
    if header.attributes & CONTROL_BIT and header.producer_id >= 0:
        with batches[position : position + header.size] as batch:
            for marker in records(batch, header):
                if control_type(marker) in (ControlType.ABORT, ControlType.COMMIT):
                    coordinator_epoch(marker)
