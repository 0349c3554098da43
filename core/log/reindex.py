"""Rebuilds the offset index and the time index of a segment from the headers of its batches."""

import logging
from collections.abc import Iterator
from typing import Final

from pk.core.log.index import OffsetIndex, TimeIndex, TimestampOffset
from pk.core.record.batch import BatchHeader, CorruptBatch

logger = logging.getLogger("pk.log")

INTERVAL: Final = 4096
"""`index.interval.bytes` of a rebuilt index."""

OFFSETS_MAX: Final = (1 << 31) - 1
"""The maximum distance between the first and the last offset of a segment."""


def rebuilt(
    headers: Iterator[tuple[int, BatchHeader]], old: OffsetIndex, old_times: TimeIndex
) -> tuple[OffsetIndex, TimeIndex, TimestampOffset]:
    """Rebuild both indexes of a segment, and write them over the existing ones. Returns them and
    the latest timestamp. `headers` yields the position and header of each batch. Batches with
    impossible offsets are left out, and everything after a damaged header. Raises OSError."""
    index = OffsetIndex(old.file, old.base_offset, 0)
    time_index = TimeIndex(old_times.file, old.base_offset, 0)
    index.start()
    time_index.start()
    latest, unindexed = TimestampOffset(-1, index.base_offset), 0
    due, offset_max = index.base_offset, index.base_offset + OFFSETS_MAX
    try:
        for position, header in headers:
            if not due <= header.base_offset <= header.last_offset <= offset_max:
                continue  # its offset is damaged, which readers of this batch will notice
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
        each.file.close()  # the file may refer to a removed name
        each.write()
        each.unload()
    return index, time_index, latest


def is_wrong_at(position: int, headers: Iterator[tuple[int, BatchHeader]]) -> bool:
    """Return whether the index is wrong rather than the log, after they disagreed at `position`:
    following the batches leads past it, or to a batch that fits the next one. Raises OSError."""
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
