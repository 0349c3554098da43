"""Selects the segments of a log to copy, and collects the data that is copied with each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pk.core.log import aborted
from pk.core.log.epochs import EpochStart
from pk.core.log.failures import storage_errors
from pk.core.log.index import OFFSET_ENTRY, TIME_ENTRY
from pk.core.log.log import Log
from pk.core.log.remote.segment_object import HEAD_BYTES, Tail, TopicState
from pk.core.log.segment import Segment
from pk.core.log.txnindex import ENTRY, VERSION


def next_to_copy(
    segments: Sequence[Segment], from_offset: int, end_offset: int
) -> tuple[Segment, int] | None:
    """Select the first closed segment with records at or after `from_offset`, if it ends at or
    before `end_offset`, the last stable offset. Returns it and the offset after its last record, or
    None."""
    for segment, following in pairwise(segments):
        if following.base_offset > from_offset:
            due = following.base_offset <= end_offset and segment.size
            return (segment, following.base_offset) if due else None
    return None


def epochs_between(
    lineage: Sequence[EpochStart], start_offset: int, end_offset: int
) -> tuple[EpochStart, ...]:
    """Return the epochs with records from `start_offset` up to and including `end_offset`."""
    found: list[EpochStart] = []
    for i, (epoch, start) in enumerate(lineage):
        following = lineage[i + 1].start_offset if i + 1 < len(lineage) else end_offset + 1
        if start <= end_offset and following > start_offset and following > start:
            found.append(EpochStart(epoch, max(start, start_offset)))
    return tuple(found)


def tail_of(
    log: Log,
    segment: Segment,
    end_offset: int,
    lineage: Sequence[EpochStart],
    topic: TopicState | None = None,
) -> Tail:
    """Collect the data that follows the records in the object of a closed segment, whose last
    offset is `end_offset`. Reads files, so call it in a thread. Raises StorageError,
    CorruptBatch."""
    state = log.state
    with storage_errors(state.directory, "read a segment to copy it"):
        segment.check_indexes()
        offsets = segment.query_index(
            lambda: segment.index.file.pread(segment.index.entries * OFFSET_ENTRY.size, 0)
        )
        times = segment.query_index(
            lambda: segment.time_index.file.pread(segment.time_index.entries * TIME_ENTRY.size, 0)
        )
        aborted.restore(state, segment)
        transactions = segment.txn_index.all()
        return Tail(
            start_offset=segment.base_offset,
            end_offset=end_offset,
            max_timestamp=segment.max_timestamp.timestamp,
            size=segment.size,
            head=segment.file.pread(min(HEAD_BYTES, segment.size), 0),
            offset_index=offsets,
            time_index=times,
            txn_index=b"".join(ENTRY.pack(VERSION, *entry) for entry in transactions),
            snapshot=state.producers_at(end_offset + 1).snapshot(),
            epochs=tuple(entry for entry in lineage if entry.start_offset <= end_offset),
            topic=topic,
        )
