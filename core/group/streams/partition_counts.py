"""The partition counts of a topology's internal topics.

A repartition topic has the count that its application sets. Otherwise, its count is the highest
count of the topics that are read by a subtopology that writes to it. Subtopologies may depend on
each other, so this is repeated until all counts are known. Then repartition topics get the count of
those that they are copartitioned with. A changelog topic has as many partitions as its subtopology
has tasks. An existing topic counts with the partitions that it has. Kafka 4.3.1 decides in the same
order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import IntEnum

from pk.core.group.java import java_order
from pk.core.group.streams.topology import Topology, copartitioned, invalid_topology, sources_of
from pk.core.wire.messages import offsets_topic_streams as wire

PartitionCount = Callable[[str], int | None]
"""Returns the number of partitions of a topic, or None if it does not exist."""


class StatusCode(IntEnum):
    """The status of a topology or an application in a heartbeat's response."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class TopologyNotReady(Exception):
    """The cluster lacks topics or partitions that the topology needs. Members wait for them."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def decide(topology: Topology, existing: PartitionCount) -> dict[str, int]:
    """Return the partition counts of all internal topics.

    Raises STREAMS_INVALID_TOPOLOGY, and TopologyNotReady if topics that must be copartitioned are
    not.
    """
    decided = _repartition_topics(topology, existing)

    def count_of(topic: str) -> int:
        found = existing(topic)
        if found is None:
            found = decided.get(topic)
        if found is None:
            raise invalid_topology(f"Number of partitions is not set for topic: {topic}")
        return found

    own_counts = [t for s in topology.in_java_order for t in s.repartition_source_topics]
    fixed = {topic.name for topic in own_counts if topic.partitions}
    flexible = {topic.name for topic in own_counts if not topic.partitions}
    for each in topology.in_java_order:
        for group in copartitioned(each):
            if group:
                decided.update(_copartition(group, fixed, flexible, count_of))
    for each in topology.in_java_order:
        tasks = tasks_of(each, count_of)
        for topic in each.state_changelog_topics:
            decided[topic.name] = tasks
    return decided


def tasks_of(subtopology: wire.Subtopology, count_of: Callable[[str], int]) -> int:
    """Return the number of tasks of a subtopology. Raises STREAMS_INVALID_TOPOLOGY if it has no
    source topics."""
    most = max((count_of(topic) for topic in sources_of(subtopology)), default=None)
    if most is None:
        raise invalid_topology(
            f"No source topics found for subtopology {subtopology.subtopology_id}"
        )
    return most


def _repartition_topics(topology: Topology, existing: PartitionCount) -> dict[str, int]:
    counts = {
        topic.name: topic.partitions
        for each in topology.in_java_order
        for topic in each.repartition_source_topics
        if topic.partitions
    }
    unknown = [each for each in topology.in_java_order if each.repartition_sink_topics]
    while unknown:
        later: list[wire.Subtopology] = []
        for each in unknown:
            lacking = [topic for topic in each.repartition_sink_topics if topic not in counts]
            most = _most_read(each, counts, existing) if lacking else None
            if most is not None:
                counts.update(dict.fromkeys(lacking, most))
            elif lacking:
                later.append(each)
        if len(later) == len(unknown):
            raise invalid_topology(
                "Failed to compute number of partitions for all repartition topics. There may be "
                "loops in the topology that cannot be resolved."
            )
        unknown = later
    for each in topology.in_java_order:
        if any(topic.name not in counts for topic in each.repartition_source_topics):
            raise invalid_topology(
                "Failed to compute number of partitions for all repartition topics, because a "
                "repartition source topic is never used as a sink topic."
            )
    return counts


def _most_read(
    subtopology: wire.Subtopology, counts: Mapping[str, int], existing: PartitionCount
) -> int | None:
    known = [counts.get(topic.name) for topic in subtopology.repartition_source_topics]
    known += [existing(topic) for topic in subtopology.source_topics]
    return max((count for count in known if count is not None), default=None)


def _copartition(
    topics: frozenset[str],
    fixed: Collection[str],
    flexible: Collection[str],
    count_of: Callable[[str], int],
) -> dict[str, int]:
    """Return the counts of the repartition topics among `topics`, all of which must have the same
    count."""
    repartitions = {t: count_of(t) for t in topics if t in fixed or t in flexible}
    others = {topic: count_of(topic) for topic in topics if topic not in repartitions}
    if others:
        wanted = _same(others, others)
    elif fixed:
        wanted = _same({topic: count_of(topic) for topic in fixed}, repartitions)
    else:
        wanted = max(repartitions.values())
    for topic in sorted(repartitions, key=java_order):
        if topic in fixed and repartitions[topic] != wanted:
            raise TopologyNotReady(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{repartitions[topic]}] of repartition topic [{topic}] "
                f"doesn't match number of partitions [{wanted}] of the source topic.",
            )
    return dict.fromkeys(repartitions, wanted)


def _same(counts: Mapping[str, int], shown: Mapping[str, int]) -> int:
    """Return the number that all of `counts` have. Raises TopologyNotReady if they differ."""
    first, *others = counts.values()
    if any(count != first for count in others):
        listed = ", ".join(f"{t}={shown[t]}" for t in sorted(shown, key=java_order))
        raise TopologyNotReady(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return first
