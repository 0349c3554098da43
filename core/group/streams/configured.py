"""A topology applied to the topics of the cluster: its tasks, and the topics that are missing.

This is soft state, which a new coordinator computes again. Heartbeats compute it when a topic of
the group has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from pk.core.group.java import java_order
from pk.core.group.streams.partition_counts import (
    PartitionCount,
    StatusCode,
    TopologyNotReady,
    decide,
    tasks_of,
)
from pk.core.group.streams.topology import Topology, invalid_topology, java_ordered
from pk.core.wire.messages import offsets_topic_streams as wire
from pk.core.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

TASKS_MAX: Final = 200_000
"""The maximum number of tasks of a topology. The assignment of more would not fit into a record
anyway."""

NAMED_MAX: Final = 3
"""The maximum number of topics that a status names."""

DEFAULT_REPLICATION: Final = -1
PARTITIONS_MAX: Final = (1 << 31) - 1


class ConfiguredSubtopology(Struct, frozen=True):
    """A subtopology whose internal topics have their partition counts."""

    tasks: int
    source_topics: tuple[str, ...]
    repartition_sources: Mapping[str, wire.TopicInfo]
    repartition_sinks: tuple[str, ...]
    changelogs: Mapping[str, wire.TopicInfo]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state, of which standby tasks can keep copies."""
        return bool(self.changelogs)


class ConfiguredTopology(Struct, frozen=True):
    """A topology with its tasks; see the top of this file."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    """Subtopologies by id, in Java's order of strings. None if they cannot be determined."""
    to_create: Mapping[str, CreatableTopic] = field(default_factory=dict[str, CreatableTopic])
    """The internal topics that are missing."""
    problem: TopologyNotReady | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None


def configure(topology: Topology, existing: PartitionCount) -> ConfiguredTopology:
    """Apply a topology to the topics of the cluster, whose partition counts `existing` returns.

    Raises STREAMS_INVALID_TOPOLOGY.
    """
    try:
        _check_sources(topology, existing)
        decided = decide(topology, existing)
        subtopologies = _subtopologies(topology, existing, decided)
        missing = _missing_topics(topology, subtopologies, existing)
    except TopologyNotReady as e:
        return ConfiguredTopology(topology.epoch, None, problem=e)
    problem = None
    if missing:
        problem = TopologyNotReady(
            StatusCode.MISSING_INTERNAL_TOPICS,
            f"Internal topics are missing: {_some(missing)}",
        )
    return ConfiguredTopology(topology.epoch, subtopologies, missing, problem)


def _check_sources(topology: Topology, existing: PartitionCount) -> None:
    missing = {
        topic
        for each in topology.subtopologies.values()
        for topic in each.source_topics
        if existing(topic) is None
    }
    if missing:
        raise TopologyNotReady(
            StatusCode.MISSING_SOURCE_TOPICS,
            f"Source topics {_some(sorted(missing, key=java_order))} are missing.",
        )


def _subtopologies(
    topology: Topology, existing: PartitionCount, decided: Mapping[str, int]
) -> dict[str, ConfiguredSubtopology]:
    def count_of(topic: str) -> int:
        found = existing(topic)
        return decided[topic] if found is None else found

    found: dict[str, ConfiguredSubtopology] = {}
    tasks = 0
    for subtopology_id in sorted(topology.subtopologies, key=java_order):
        each = topology.subtopologies[subtopology_id]
        one = ConfiguredSubtopology(
            tasks_of(each, count_of),
            tuple(each.source_topics),
            {t.name: _with_count(t, decided) for t in each.repartition_source_topics},
            tuple(each.repartition_sink_topics),
            {t.name: _with_count(t, decided) for t in each.state_changelog_topics},
        )
        found[subtopology_id] = one
        tasks += one.tasks
        if tasks > TASKS_MAX:
            raise invalid_topology(f"The topology has more than {TASKS_MAX} tasks.")
    return found


def _with_count(topic: wire.TopicInfo, decided: Mapping[str, int]) -> wire.TopicInfo:
    partitions = topic.partitions or decided[topic.name]
    if partitions < 1:
        raise invalid_topology(f"Topic {topic.name} has {partitions} partitions.")
    return wire.TopicInfo(
        name=topic.name,
        partitions=partitions,
        replication_factor=topic.replication_factor,
        topic_configs=topic.topic_configs,
    )


def _missing_topics(
    topology: Topology,
    subtopologies: Mapping[str, ConfiguredSubtopology],
    existing: PartitionCount,
) -> dict[str, CreatableTopic]:
    expected: dict[str, wire.TopicInfo] = {}
    for each in subtopologies.values():
        expected |= each.repartition_sources
        expected |= each.changelogs
    in_order = java_ordered(expected)
    for name in java_ordered(topology.required_topics):
        count = existing(name)
        if count is None:
            continue
        topic = expected.pop(name, None)
        if topic is not None and count != topic.partitions:
            raise TopologyNotReady(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                (
                    f"Existing topic {name} has different number of partitions: expected "
                    f"{topic.partitions}, found {count}"
                ),
            )
    return {name: _creatable(expected[name]) for name in in_order if name in expected}


def _creatable(topic: wire.TopicInfo) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or DEFAULT_REPLICATION,
        configs=[
            CreatableTopicConfig(name=config.key, value=config.value)
            for config in topic.topic_configs
        ],
    )


def _some(topics: Iterable[str]) -> str:
    names = list(topics)
    shown = ", ".join(names[:NAMED_MAX])
    more = len(names) - NAMED_MAX
    return f"{shown} and {more} additional topics" if more > 0 else shown
