"""Decides which objects of a lost cluster a new cluster takes over: pure planning, for each
partition.

`__remote_log_metadata` is lost with the cluster, so only the objects can show which of them form
the log. Each object has the leader epochs of its log up to its own end. As in an election by the
longest log, the object with the newest last epoch wins, and among several such objects the one with
the highest end offset: its log is restored. From its end, the plan goes back through the segments
that have the epochs of this log, to the first gap, or to the start that the log had when that
object was copied. Offsets are never assigned twice, so a gap loses the records before it, not the
records after it.

Other objects that reach beyond the start are taken over too, since the manager of the new cluster
deletes objects that others replace. Objects before the start are left alone: an operator may need
the records before a gap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pk.core.log.epochs import EpochStart
from pk.core.log.producers import CorruptSnapshot, Producers
from pk.core.log.remote.checking import CheckedObject
from pk.core.log.remote.copying import epochs_between
from pk.core.log.remote.metadata import RemotePartition, RemoteSegment, SegmentState
from pk.core.log.remote.segment_object import TopicState, read_tail
from pk.core.log.remote.segments import RemoteSegments, epoch_ranges
from pk.core.log.remote.storage import (
    DamagedObject,
    RemoteStorage,
    SegmentName,
    home_of,
    segment_name,
)
from pk.core.values import NO_EPOCH, NO_NODE, NO_OFFSET, Uuid


class FoundSegment(Struct, frozen=True):
    """A whole object in the store."""

    segment: RemoteSegment
    lineage: tuple[EpochStart, ...]
    """The leader epochs of the segment's log, from the log's start to the segment's end."""


class PartitionPlan(Struct, frozen=True):
    """The part of a partition that is restored."""

    start_offset: int
    """The first offset that can be read."""
    end_offset: int
    """The last offset; -1 if there is none."""
    lineage: tuple[EpochStart, ...]
    """The leader epochs of the log up to `end_offset`."""
    last: RemoteSegment | None
    """The segment with the last offset."""
    segments: tuple[RemoteSegment, ...]
    """The segments that are taken over."""
    log_start_offset: int
    """The start of the log when the last segment was copied. If `start_offset` is higher, the
    records between them are lost."""

    @property
    def last_epoch(self) -> int:
        """The newest leader epoch of the log; -1 if there is none."""
        return self.lineage[-1].epoch if self.lineage else NO_EPOCH


NOTHING = PartitionPlan(0, NO_OFFSET, (), None, (), 0)


class PartitionFound(Struct, frozen=True):
    """The segments of one partition in a store."""

    partition: RemotePartition
    plan: PartitionPlan
    cluster_ids: tuple[str, ...]
    """The clusters that copied the partition's segments."""
    damaged: tuple[CheckedObject, ...]
    """The objects that cannot be used."""
    ignored: int
    """How many whole segments are not taken over."""


class TopicFound(Struct, frozen=True):
    """The partitions of one topic in a store."""

    name: str
    topic_id: Uuid
    state: TopicState | None
    """The state of the topic when its last segment was copied; None if no segment has it."""
    partitions: tuple[PartitionFound, ...]
    """All partitions, in order. Partitions of which nothing was copied are empty."""
    cluster_ids: tuple[str, ...]


def found_topics(objects: Iterable[CheckedObject], cluster_id: str) -> list[TopicFound]:
    """Collect the topics in a store, by name, as cluster `cluster_id` would restore them."""
    topics: dict[tuple[str, Uuid], _Topic] = {}
    for one in objects:
        name = one.segment
        if name is None:
            continue
        partition = name.partition
        key = (partition.topic, partition.topic_id)
        topics.setdefault(key, _Topic()).add(one, name, cluster_id)
    return [topics[key].found(*key) for key in sorted(topics)]


class _Topic:
    """Collects the objects of a topic. Tails are large, so they are not kept."""

    def __init__(self) -> None:
        self._state: TopicState | None = None
        self._segments: dict[int, list[FoundSegment]] = {}
        self._damaged: dict[int, list[CheckedObject]] = {}
        self._clusters: dict[int, set[str]] = {}

    def add(self, one: CheckedObject, name: SegmentName, cluster_id: str) -> None:
        number = name.partition.partition
        self._clusters.setdefault(number, set()).add(name.cluster_id)
        segment = found_segment(one, cluster_id, NO_NODE)
        if segment is None:
            self._damaged.setdefault(number, []).append(replace(one, tail=None))
        else:
            self._segments.setdefault(number, []).append(segment)
        state = one.tail.topic if one.tail is not None else None
        if state is not None and (self._state is None or state.copied_ms > self._state.copied_ms):
            self._state = state

    def found(self, topic: str, topic_id: Uuid) -> TopicFound:
        count = max(self._clusters) + 1
        if self._state is not None:
            count = max(count, self._state.partitions)
        partitions: list[PartitionFound] = []
        for number in range(count):
            partition = RemotePartition(topic, topic_id, number)
            segments = self._segments.get(number, [])
            plan = plan_partition(partition, segments)
            partitions.append(
                PartitionFound(
                    partition,
                    plan,
                    tuple(sorted(self._clusters.get(number, ()))),
                    tuple(self._damaged.get(number, ())),
                    len(segments) - len(plan.segments),
                )
            )
        clusters = sorted(set[str]().union(*self._clusters.values()))
        return TopicFound(topic, topic_id, self._state, tuple(partitions), tuple(clusters))


def producer_id_after(storage: RemoteStorage, cluster_id: str, plan: PartitionPlan) -> int:
    """Return a producer id above all ids in the log's last producer snapshot. Raises
    RemoteStorageError."""
    if plan.last is None:
        return 0
    tail = read_tail(storage, segment_name(cluster_id, plan.last), plan.last.size)
    try:
        producers = Producers.from_snapshot(tail.snapshot, plan.end_offset + 1, 0)
    except CorruptSnapshot as e:
        raise DamagedObject(f"{plan.last.partition.tp}: cannot read its producers: {e}") from e
    return max((one.producer_id for one in producers), default=-1) + 1


def found_segment(found: CheckedObject, cluster_id: str, node_id: int) -> FoundSegment | None:
    """Describe the segment in an object as node `node_id` of cluster `cluster_id` records it in the
    metadata. Returns None if the object is damaged, or its records have no leader epoch."""
    name, tail = found.segment, found.tail
    if name is None or tail is None or found.problem:
        return None
    epochs = epochs_between(tail.epochs, tail.start_offset, tail.end_offset)
    if not epochs:
        return None
    segment = RemoteSegment(
        partition=name.partition,
        id=name.id,
        start_offset=tail.start_offset,
        end_offset=tail.end_offset,
        broker_id=node_id,
        max_timestamp=tail.max_timestamp,
        event_ms=found.stored.modified_ms,
        epochs=epochs,
        size=tail.size,
        state=SegmentState.COPY_STARTED,
        custom_metadata=None if name.cluster_id == cluster_id else home_of(name.cluster_id),
        txn_index_empty=not tail.txn_index,
    )
    return FoundSegment(segment, tail.epochs)


def plan_partition(partition: RemotePartition, found: Sequence[FoundSegment]) -> PartitionPlan:
    """Plan how to restore a partition, from all its whole objects."""
    if not found:
        return NOTHING
    best = max(found, key=lambda f: (f.lineage[-1].epoch, f.segment.end_offset))
    lineage, last = best.lineage, best.segment
    known = RemoteSegments(partition)
    for one in found:
        known.replay(replace(one.segment, state=SegmentState.COPY_FINISHED))
    start = _first_readable(known, lineage, last.end_offset + 1)
    taken = tuple(
        sorted(
            (one.segment for one in found if one.segment.end_offset >= start),
            key=lambda s: (s.start_offset, s.end_offset),
        )
    )
    return PartitionPlan(start, last.end_offset, lineage, last, taken, lineage[0].start_offset)


def _first_readable(
    segments: RemoteSegments, lineage: Sequence[EpochStart], end_offset: int
) -> int:
    """Find the first offset from which all of the log before `end_offset` can be read."""
    at = end_offset
    while at > lineage[0].start_offset:
        entry = lineage[bisect_right(lineage, at - 1, key=lambda e: e.start_offset) - 1]
        segment = segments.find(entry.epoch, at - 1)
        if segment is None:
            break
        first = next(start for epoch, start, _ in epoch_ranges(segment) if epoch == entry.epoch)
        at = max(first, entry.start_offset)
    return at
