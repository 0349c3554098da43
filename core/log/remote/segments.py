"""A state machine for the remote segments of one partition: replays the records of
`__remote_log_metadata`, and finds segments by leader epoch and offset.

After an unclean election two leaders may have copied different records at the same offsets. So a
reader searches for an offset with the leader epoch that its log has at this offset, and finds only
a segment in which that epoch has the offset.

Records that do not fit are ignored, such as a late COPY_FINISHED of an old leader for a segment
that the new one is deleting already. All brokers replay the same records in the same order, so they
all ignore the same records.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from pk.core.log.epochs import EpochStart
from pk.core.log.remote.metadata import (
    PartitionDelete,
    PartitionDeleteState,
    Record,
    RemotePartition,
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
)
from pk.core.values import NO_OFFSET, Uuid

NEXT: Final[Mapping[SegmentState, frozenset[SegmentState]]] = {
    SegmentState.COPY_STARTED: frozenset({SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED}),
    SegmentState.COPY_FINISHED: frozenset({SegmentState.DELETE_STARTED}),
    SegmentState.DELETE_STARTED: frozenset({SegmentState.DELETE_FINISHED}),
    SegmentState.DELETE_FINISHED: frozenset(),
}
"""The states that may follow each state."""


class _EpochSegments:
    """The copied segments with records of one leader epoch, sorted by the first offset that the
    epoch has in each."""

    __slots__ = ("ends", "ids", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.ids: list[Uuid] = []
        # Both starts and ends increase: no segment contains another.

    def add(self, start: int, end: int, segment_id: Uuid) -> None:
        """Add a segment that has this epoch from `start` to `end`. It replaces the segments that it
        contains: a new leader may copy more at once than the last one did."""
        at = bisect_left(self.starts, start)
        before = at if at < len(self.starts) and self.starts[at] == start else at - 1
        if before >= 0 and (self.ends[before], -self.starts[before]) > (end, -start):
            return  # another segment has all of it
        upto = at
        while upto < len(self.starts) and self.ends[upto] <= end:
            upto += 1
        self.starts[at:upto], self.ends[at:upto], self.ids[at:upto] = [start], [end], [segment_id]

    def remove(self, start: int, segment_id: Uuid) -> None:
        """Remove a segment, so that it is no longer found."""
        at = bisect_left(self.starts, start)
        if at < len(self.starts) and self.starts[at] == start and self.ids[at] == segment_id:
            del self.starts[at], self.ends[at], self.ids[at]

    def at_or_before(self, offset: int) -> Uuid | None:
        """Return the last segment in which this epoch begins at or before `offset`."""
        at = bisect_right(self.starts, offset)
        return self.ids[at - 1] if at else None


class RemoteSegments:
    """The remote segments of one partition."""

    def __init__(self, partition: RemotePartition) -> None:
        self.partition = partition
        self.delete_state: PartitionDeleteState | None = None
        """The progress of deleting all segments; None for a partition that exists."""
        self.is_noted = False
        """Whether there were any records about the partition."""
        self.deleted_ms = 0
        """The time at which `delete_state` was reached."""
        self._segments: dict[Uuid, RemoteSegment] = {}
        self._epochs: dict[int, _EpochSegments] = {}
        self._with_aborted: list[tuple[int, Uuid]] = []
        """(first offset, id) of the copied segments that have aborted transactions in their index,
        which are few."""

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[RemoteSegment]:
        """Iterate over the segments that are not completely deleted, in the order in which copying
        them began."""
        return iter(list(self._segments.values()))

    def get(self, segment_id: Uuid) -> RemoteSegment | None:
        """Return the segment with this id, unless it is completely deleted."""
        return self._segments.get(segment_id)

    def replay(self, record: Record) -> None:
        """Apply the next record about this partition."""
        self.is_noted = True
        match record:
            case RemoteSegment():
                self._begin(record)
            case SegmentUpdate():
                self._update(record)
            case PartitionDelete():
                if self.delete_state is None or record.state > self.delete_state:
                    self.delete_state, self.deleted_ms = record.state, record.event_ms

    def _begin(self, segment: RemoteSegment) -> None:
        if segment.id in self._segments or segment.state is SegmentState.DELETE_FINISHED:
            return
        # All segments share one object for their partition: there may be 100,000 segments.
        segment = msgspec.structs.replace(segment, partition=self.partition)
        self._segments[segment.id] = segment
        if segment.state is SegmentState.COPY_FINISHED:
            self._make_readable(segment)

    def _update(self, update: SegmentUpdate) -> None:
        segment = self._segments.get(update.id)
        if segment is None or update.state not in NEXT[segment.state]:
            return
        changed = msgspec.structs.replace(
            segment,
            state=update.state,
            event_ms=update.event_ms,
            broker_id=update.broker_id,
            custom_metadata=segment.custom_metadata
            if update.custom_metadata is None
            else update.custom_metadata,
        )
        if update.state is SegmentState.DELETE_FINISHED:
            del self._segments[update.id]
            return
        self._segments[update.id] = changed
        if update.state is SegmentState.COPY_FINISHED:
            self._make_readable(changed)
        else:
            for epoch, start in changed.epochs:
                if (known := self._epochs.get(epoch)) is not None:
                    known.remove(start, changed.id)
            key = changed.start_offset, changed.id
            if key in self._with_aborted:
                self._with_aborted.remove(key)

    def _make_readable(self, segment: RemoteSegment) -> None:
        """Add a copied segment to those that readers find."""
        if not segment.txn_index_empty:
            insort(self._with_aborted, (segment.start_offset, segment.id))
        for epoch, start, end in epoch_ranges(segment):
            self._epochs.setdefault(epoch, _EpochSegments()).add(start, end, segment.id)

    # --- reading ---

    def find(self, epoch: int, offset: int) -> RemoteSegment | None:
        """Find the copied segment in which `epoch` has `offset`; None if there is none."""
        known = self._epochs.get(epoch)
        segment_id = known.at_or_before(offset) if known is not None else None
        if segment_id is None:
            return None
        segment = self._segments[segment_id]
        for of, start, end in epoch_ranges(segment):
            if of == epoch:
                return segment if start <= offset <= end else None
        return None

    def last_offset(self, epoch: int) -> int:
        """Return the last offset of `epoch` that can be read; -1 if none can."""
        known = self._epochs.get(epoch)
        return known.ends[-1] if known is not None and known.ends else NO_OFFSET

    def with_aborted(self) -> list[RemoteSegment]:
        """Return the copied segments that have aborted transactions in their index, by first
        offset."""
        return [self._segments[segment_id] for _, segment_id in self._with_aborted]

    def is_readable(self, segment: RemoteSegment) -> bool:
        """Return whether a reader can find the segment in some epoch."""
        for epoch, start in segment.epochs:
            known = self._epochs.get(epoch)
            if known is not None and known.at_or_before(start) == segment.id:
                return True
        return False


def epoch_ranges(segment: RemoteSegment) -> Iterator[tuple[int, int, int]]:
    """Yield (epoch, first offset, last offset) for each leader epoch in a segment."""
    for (epoch, start), (_, following) in pairwise(segment.epochs):
        yield epoch, start, following - 1
    if segment.epochs:
        epoch, start = segment.epochs[-1]
        yield epoch, start, segment.end_offset


def highest_copied(
    segments: RemoteSegments, lineage: Sequence[EpochStart], log_end_offset: int
) -> tuple[int, int]:
    """Find the last copied offset that belongs to the log with these leader epochs. Returns it and
    its epoch, (-1, -1) if there is none."""
    end = log_end_offset
    for epoch, start in reversed(lineage):
        copied = segments.last_offset(epoch)
        if copied >= 0:
            copied = min(copied, end - 1)
            if copied >= start:
                return copied, epoch
        end = start
    return NO_OFFSET, -1


def copied_to(
    segments: RemoteSegments, lineage: Sequence[EpochStart], from_offset: int, log_end_offset: int
) -> int:
    """Return the last offset up to which all records from `from_offset` on are in remote storage;
    `from_offset - 1` if none are. A segment may be missing before copied ones, if its copy was
    given up and theirs were not. It must be copied again, and must not be deleted locally before
    that."""
    last = from_offset - 1
    for found in in_lineage(segments, lineage, from_offset, log_end_offset):
        last = found.end_offset
    return last


def is_within(segment: RemoteSegment, lineage: Sequence[EpochStart], log_end_offset: int) -> bool:
    """Return whether all records of a segment belong to the log with these leader epochs. Earlier
    epochs than the log's first one also belong to it: the log once began with them, and its start
    has moved since."""
    if not lineage or segment.end_offset >= log_end_offset:
        return False
    ends = {
        epoch: (start, following)
        for (epoch, start), following in zip(
            lineage, [*(e.start_offset for e in lineage[1:]), log_end_offset], strict=True
        )
    }
    first = lineage[0]
    for epoch, start, end in epoch_ranges(segment):
        if epoch < first.epoch:
            if end >= first.start_offset:
                return False
            continue
        known = ends.get(epoch)
        if known is None or end >= known[1]:
            return False
        if start < known[0] and epoch != first.epoch:
            return False
    return bool(segment.epochs)


class RemoteRange(NamedTuple):
    """Offsets of a log that can be read from one segment; both ends are included."""

    segment: RemoteSegment
    start_offset: int
    end_offset: int


def range_at(
    segments: RemoteSegments, lineage: Sequence[EpochStart], offset: int, log_end_offset: int
) -> RemoteRange | None:
    """Find the segment that has `offset` of the log with these leader epochs, and the range of the
    log's records of that epoch in it: an unclean leader may have begun another epoch within the
    segment. Returns None if there is none, also beyond the end of the log, from which an
    out-of-sync follower may read."""
    if offset >= log_end_offset:
        return None
    entry = bisect_right(lineage, offset, key=lambda e: e.start_offset) - 1
    if entry < 0:
        return None
    epoch = lineage[entry].epoch
    segment = segments.find(epoch, offset)
    if segment is None:
        return None
    end = lineage[entry + 1].start_offset if entry + 1 < len(lineage) else log_end_offset
    for of, _, last in epoch_ranges(segment):
        if of == epoch:
            return RemoteRange(segment, offset, min(last, end - 1))
    return None


def with_aborted(
    segments: RemoteSegments, lineage: Sequence[EpochStart], from_offset: int, log_end_offset: int
) -> Iterator[RemoteSegment]:
    """Yield, in order, the segments with aborted transactions that a reader of the log with these
    leader epochs needs from `from_offset` on."""
    for segment in segments.with_aborted():
        for _, start, end in epoch_ranges(segment):
            at = max(start, from_offset)
            found = range_at(segments, lineage, at, log_end_offset) if at <= end else None
            if found is not None and found.segment is segment:
                yield segment
                break


def in_lineage(
    segments: RemoteSegments, lineage: Sequence[EpochStart], from_offset: int, log_end_offset: int
) -> Iterator[RemoteRange]:
    """Yield, in order, the ranges that a reader of the log with these leader epochs needs from
    `from_offset` on, up to the first gap."""
    offset = from_offset
    while (found := range_at(segments, lineage, offset, log_end_offset)) is not None:
        yield found
        offset = found.end_offset + 1
