"""Reads a log: slices from an offset, offsets by time, aborted transactions.

The functions take a list of segments that the caller read from its log once; each may run in a
thread (see log.py).
"""

from bisect import bisect_right
from typing import Final, NamedTuple

from pk.core.errors import KafkaError
from pk.core.log import time_search
from pk.core.log.file_slices import EMPTY, Slice
from pk.core.log.segment import Segment
from pk.core.log.txnindex import AbortedTxn
from pk.core.record.batch import CODEC_BITS, LOGGED_BYTES_MAX, BatchHeader, Record, records

FIRST_BYTES: Final = 16 << 10
"""The bytes to read first of a batch of which only the first records may be needed."""


class FetchSlice(NamedTuple):
    """The bytes for a fetch. They begin with a whole batch and may end within one."""

    slice: Slice
    base_offset: int
    """The offset of the first batch, which may be below the requested offset; the requested offset
    if the slice is empty."""
    segment_base: int = -1
    end_position: int = 0
    """The end position of the slice in its segment."""

    @property
    def length(self) -> int:
        """The length in bytes."""
        return self.slice.length


class FoundTimestamp(NamedTuple):
    """A record found by its timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


def segment_index(segments: list[Segment], offset: int) -> int:
    """Return the index of the segment that would contain `offset`; the first one for offsets below
    all."""
    if offset >= segments[-1].base_offset:
        return len(segments) - 1
    return max(bisect_right(segments, offset, key=lambda s: s.base_offset) - 1, 0)


class LogView(NamedTuple):
    """A log as a read sees it, although the log may grow at the same time."""

    segments: list[Segment]
    active_size: int
    """The size of the last segment in bytes, which was read before `log_end_offset`."""
    log_end_offset: int


def read(
    log: LogView, offset: int, bytes_max: int, offset_end: int, *, minimum_one: bool, recheck: bool
) -> FetchSlice:
    """Read batches: see `LogReader.read`. Batches at or after `offset_end` are excluded even while
    the log grows."""
    segments, active_size, log_end_offset = log
    nothing = FetchSlice(EMPTY, offset)
    for i in range(segment_index(segments, offset), len(segments)):
        segment = segments[i]
        place = segment.locate(offset)
        if place is None:  # compaction removed everything from here to the end of the segment
            continue
        if i + 1 < len(segments):
            following, end = segments[i + 1].base_offset, segment.size
        else:
            following, end = log_end_offset, active_size
        if place.last_offset >= following:
            raise segment.no_batch(place.position)
        if place.base_offset >= offset_end:
            return nothing
        if offset_end < following and (limit := segment.locate(offset_end)) is not None:
            end = limit.position
        length = end - place.position
        if length <= 0:
            return nothing  # the segment was rewritten in the meantime, and is larger
        if length > bytes_max:
            length = bytes_max
            first = segment.size_at(place)
            if length < first:
                if not minimum_one:
                    return nothing
                length = first
        position = place.position
        length = segment.checked_length(position, length, following, recheck=recheck)
        return FetchSlice(
            segment.file.slice(position, length),
            place.base_offset,
            segment.base_offset,
            position + length,
        )
    return nothing


def offset_for_time(
    segments: list[Segment], timestamp: int, from_offset: int
) -> FoundTimestamp | None:
    """Find the first record at or after `from_offset` that is not earlier than `timestamp`.
    Timestamps need not increase."""
    for segment in segments[segment_index(segments, from_offset) :]:
        if not segment.size or time_search.latest(segment).timestamp < timestamp:
            continue
        for position, header in time_search.batches_from(segment, timestamp, from_offset):
            record = _first_record(segment, position, header, timestamp, from_offset)
            if record is not None:
                return FoundTimestamp(record.offset, record.timestamp, header.leader_epoch)
    return None


def max_timestamp(segments: list[Segment]) -> FoundTimestamp | None:
    """Find the first record with the latest timestamp of all; None if no record has one."""
    with_data = [segment for segment in segments if segment.size]
    if not with_data:
        return None
    segment = max(with_data, key=lambda s: time_search.latest(s).timestamp)
    timestamp, offset = segment.max_timestamp
    place = segment.locate(offset) if timestamp >= 0 else None
    if place is None:
        return None
    header = segment.header_at(place.position)
    record = _first_record(segment, place.position, header, header.max_timestamp, 0)
    if record is None:
        return None
    return FoundTimestamp(record.offset, record.timestamp, header.leader_epoch)


def offset_beyond(segments: list[Segment], fetched: FetchSlice, log_end_offset: int) -> int:
    """Return an offset above all records of `fetched`, found in the index: not the smallest such
    offset, but a near one."""
    at = segment_index(segments, fetched.segment_base)
    beyond = segments[at + 1].base_offset if at + 1 < len(segments) else log_end_offset
    within = segments[at].offset_after(fetched.end_position)
    return beyond if within is None else min(beyond, within + 1)


def aborted_transactions(segments: list[Segment], offset: int, end: int) -> list[AbortedTxn]:
    """Return the aborted transactions with records in [offset, end), in the order of their
    markers."""
    found: list[AbortedTxn] = []
    for segment in segments[segment_index(segments, offset) :]:
        for aborted in segment.txn_index.all():
            if aborted.last_offset >= offset and aborted.first_offset < end:
                found.append(aborted)
            if aborted.last_stable_offset >= end:
                return found
    return found


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, from_offset: int
) -> Record | None:
    """Find the first record of a batch, at or after `from_offset`, that is not earlier than
    `timestamp`. An uncompressed batch is only read up to that record."""
    data, wanted = b"", header.size
    if not header.attributes & CODEC_BITS:
        wanted = min(wanted, FIRST_BYTES)
    while True:
        more = segment.file.pread(wanted - len(data), position + len(data))
        data = data + more if data else more
        try:
            for record in records(data, header, decompressed_bytes_max=LOGGED_BYTES_MAX):
                if record.timestamp >= timestamp and record.offset >= from_offset:
                    return record
            return None
        except KafkaError:  # perhaps only because the rest was not read
            if wanted == header.size or len(data) < wanted:
                raise
            wanted = min(wanted * 4, header.size)
