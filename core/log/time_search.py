"""Searches for a timestamp in a segment, without trusting its time index blindly.

An entry says that the batch with its offset has its timestamp, and that no earlier batch has a
later one. A flipped bit in one would make a reader skip requested records without noticing. So the
two entries that determine the result are checked against their batches: the last one before the
timestamp and the first one after it, since the search starts between them. A wrong entry elsewhere
only makes the search begin too early. If an entry and a valid batch contradict each other, the
index is rebuilt.
"""

from collections.abc import Iterator
from typing import Final

from pk.core.log.index import TimestampOffset
from pk.core.log.segment import Segment
from pk.core.record.batch import HEADER_BYTES, BatchHeader, CorruptBatch, check_crc

_INT64_MAX: Final = (1 << 63) - 1


def latest(segment: Segment) -> TimestampOffset:
    """Return `Segment.max_timestamp`, after comparing it once with the log. Raises OSError,
    CorruptBatch."""
    found = segment.max_timestamp
    if not segment.times_proved and not segment.active:
        if found.timestamp >= 0 and not _agrees(segment, found):
            segment.rebuild_indexes(segment.time_index.file.path)
        segment.times_proved = True
    return segment.max_timestamp


def batches_from(
    segment: Segment, timestamp: int, from_offset: int
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the batches, in order, that end at or after `from_offset` and have a record that is not
    earlier than `timestamp`. Raises OSError, CorruptBatch."""
    # Read this first, since the indexes may grow in the meantime.
    position = segment.begin_at(_INT64_MAX)
    before, entry = segment.query_index(lambda: segment.time_index.around(timestamp))
    if not segment.active and not all(_agrees(segment, e) for e in (before, entry) if e):
        segment.rebuild_indexes(segment.time_index.file.path)
        position = segment.begin_at(_INT64_MAX)
        _, entry = segment.query_index(lambda: segment.time_index.around(timestamp))
    if entry is not None:
        position = segment.begin_at(max(entry.offset - 1, from_offset))
    for at, header in segment.headers(position):
        if header.max_timestamp >= timestamp and header.last_offset >= from_offset:
            yield at, header


def _agrees(segment: Segment, entry: TimestampOffset) -> bool:
    """Return whether the batch that contains the entry's offset has the entry's timestamp. A
    damaged batch counts as agreeing."""
    try:
        position = segment.begin_at(entry.offset)
        # Read one header at a time, since the first is nearly always the right one.
        for at, header in segment.headers(position, chunk_bytes=HEADER_BYTES):
            if header.last_offset < entry.offset:
                continue
            if header.base_offset <= entry.offset and header.max_timestamp == entry.timestamp:
                return True
            check_crc(segment.batch_at(at, header), 0, header)
            return False
    except CorruptBatch:
        return True
    return False
