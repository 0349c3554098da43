"""The topology of a streams application, as members send it and the group's record stores it.

A topology has *subtopologies*. Each reads *source topics* and *repartition topics*, writes to
repartition topics (its *sinks*), and keeps state whose copies are in *changelog topics*.
Repartition and changelog topics are internal topics of the application, which the broker creates.
All topics of a *copartition group* need the same number of partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Final

from msgspec import Struct, field

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.java import hash_map_order
from pk.core.wire.messages import offsets_topic_streams as wire
from pk.core.wire.messages import streams_group_heartbeat as heartbeat

ORDERED_MAX: Final = 200
"""The maximum number of names that are sorted in Java's order. Sorting takes 25 µs for each, and
the order matters only for ties."""


def java_ordered(names: Collection[str]) -> list[str]:
    """Return `names` in the order of Java's `HashMap`, unless there are too many."""
    return hash_map_order(names) if len(names) <= ORDERED_MAX else list(names)


def invalid_topology(message: str) -> KafkaError:
    """Return the error for an invalid topology."""
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


class Topology(Struct, frozen=True, eq=False, dict=True):
    """A topology with its epoch."""

    epoch: int
    subtopologies: Mapping[str, wire.Subtopology] = field(
        default_factory=dict[str, wire.Subtopology]
    )
    """Subtopologies by id, in the order in which the member sent them."""

    @cached_property
    def in_java_order(self) -> list[wire.Subtopology]:
        """The subtopologies in the order of Java's `HashMap`, for results that visibly depend on
        it."""
        return [self.subtopologies[name] for name in java_ordered(self.subtopologies)]

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """All topics that the topology reads or keeps state in."""
        return frozenset(
            chain.from_iterable(
                chain(sources_of(each), (topic.name for topic in each.state_changelog_topics))
                for each in self.subtopologies.values()
            )
        )

    @cached_property
    def readers(self) -> dict[str, str]:
        """The subtopology that reads each source or repartition topic, by id."""
        return {
            topic: each.subtopology_id for each in self.in_java_order for topic in sources_of(each)
        }

    def equals(self, other: Topology) -> bool:
        """Whether `other` is the same topology in the same epoch."""
        if self.epoch != other.epoch or self.subtopologies.keys() != other.subtopologies.keys():
            return False
        for subtopology_id, each in self.subtopologies.items():
            if each != other.subtopologies[subtopology_id]:
                return False
        return True

    def record(self) -> wire.StreamsGroupTopologyValue:
        """Return the topology as the value of a record."""
        return wire.StreamsGroupTopologyValue(
            epoch=self.epoch, subtopologies=list(self.subtopologies.values())
        )


def sources_of(subtopology: wire.Subtopology) -> Iterator[str]:
    """Yield the topics that a subtopology reads."""
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


def topology_of_record(value: wire.StreamsGroupTopologyValue) -> Topology:
    """Decode the topology in a record."""
    return Topology(value.epoch, {each.subtopology_id: each for each in value.subtopologies})


def topology_of_request(topology: heartbeat.Topology) -> Topology:
    """Decode the topology in a request. Raises STREAMS_INVALID_TOPOLOGY."""
    if topology.epoch < 0:
        raise invalid_topology("Topology epoch must be non-negative.")
    found: dict[str, wire.Subtopology] = {}
    for each in topology.subtopologies:
        if each.subtopology_id in found:
            raise invalid_topology(f"Subtopology {each.subtopology_id} is named twice.")
        changelogs = _topics(each.state_changelog_topics)
        repartitions = _topics(each.repartition_source_topics)
        found[each.subtopology_id] = wire.Subtopology(
            subtopology_id=each.subtopology_id,
            source_topics=each.source_topics,
            source_topic_regex=each.source_topic_regex,
            state_changelog_topics=changelogs,
            repartition_sink_topics=each.repartition_sink_topics,
            repartition_source_topics=repartitions,
            copartition_groups=[
                wire.CopartitionGroup(
                    source_topics=group.source_topics,
                    source_topic_regex=group.source_topic_regex,
                    repartition_source_topics=group.repartition_source_topics,
                )
                for group in each.copartition_groups
            ],
        )
    return Topology(topology.epoch, found)


def _topics(topics: list[heartbeat.TopicInfo]) -> list[wire.TopicInfo]:
    made: list[wire.TopicInfo] = []
    for topic in topics:
        made.append(
            wire.TopicInfo(
                name=topic.name,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                topic_configs=[
                    wire.TopicConfig(key=config.key, value=config.value)
                    for config in topic.topic_configs
                ],
            )
        )
    return made


def copartitioned(subtopology: wire.Subtopology) -> Iterator[frozenset[str]]:
    """Return the topics of each copartition group. Raises STREAMS_INVALID_TOPOLOGY if a group
    contains a topic that the subtopology does not read."""
    for group in subtopology.copartition_groups:
        sources = subtopology.source_topics
        repartitions = subtopology.repartition_source_topics
        if not all(0 <= i < len(sources) for i in group.source_topics) or not all(
            0 <= i < len(repartitions) for i in group.repartition_source_topics
        ):
            raise invalid_topology(
                f"A copartition group of subtopology {subtopology.subtopology_id} names topics "
                "that it does not read."
            )
        yield frozenset(
            chain(
                (sources[i] for i in group.source_topics),
                (repartitions[i].name for i in group.repartition_source_topics),
            )
        )
