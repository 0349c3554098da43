"""Rebuilds the offset index and the time index of a segment from the headers of its batches."""

import logging
from collections.abc import Iterator
from typing import Final

from pk.core.log.index import OffsetIndex, TimeIndex, TimestampOffset
from pk.core.record.batch import BatchHeader, CorruptBatch

logger = logging.getLogger("pk.log")

INTERVAL: Final = 4096
"""`index.interval.bytes` of an index that is rebuilt."""

OFFSETS_MAX: Final = (1 << 31) - 1
"""From the first offset that a segment may hold to the last."""


def rebuilt(
    headers: Iterator[tuple[int, BatchHeader]], old: OffsetIndex, old_times: TimeIndex
) -> tuple[OffsetIndex, TimeIndex, TimestampOffset]:
    """Both indexes, written, in the place of those there are; and the latest timestamp. As far as
    `headers`, position and header of each batch, can be read; without a batch whose offsets cannot
    be. Raises OSError."""
    index = OffsetIndex(old.file, old.base_offset, 0)
    time_index = TimeIndex(old_times.file, old.base_offset, 0)
    index.start()
    time_index.start()
    latest, unindexed = TimestampOffset(-1, index.base_offset), 0
    due, offset_max = index.base_offset, index.base_offset + OFFSETS_MAX
    try:
        for position, header in headers:
            if not due <= header.base_offset <= header.last_offset <= offset_max:
                continue  # its offset is damaged: its reader gets the error
            due = header.next_offset
            if header.max_timestamp > latest.timestamp:
                latest = TimestampOffset(header.max_timestamp, header.last_offset)
            if unindexed > INTERVAL:
                index.append(header.last_offset, position)
                time_index.maybe_append(*latest)
                unindexed = 0
            unindexed += header.size
    except CorruptBatch as e:
        logger.error("%s: records after it are not indexed", e.message)
    time_index.maybe_append(*latest)
    for each in (index, time_index):
        each.file.close()  # it may be of a name that is gone
        each.write()
        each.unload()
    return index, time_index, latest


def is_wrong_at(position: int, headers: Iterator[tuple[int, BatchHeader]]) -> bool:
    """Whether it is the index that is wrong, and not the log, where they do not agree at
    `position`: a walk over the batches passes that by, or what lies there goes well with what
    follows. Raises OSError."""
    due = -1
    try:
        for at, header in headers:
            if due >= 0:
                return header.base_offset >= due  # compaction leaves gaps
            if at > position:
                return True
            if at == position:
                due = header.next_offset
    except CorruptBatch:
        return False
    return True
