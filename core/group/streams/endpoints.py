"""Endpoints: the addresses at which an application's processes answer queries, and their
partitions.

Members get all endpoints whenever these have changed. A number, the endpoint information epoch,
shows a change. All of this is soft state: a new coordinator begins at 0, and members get everything
again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pk.core.group.streams.configured import ConfiguredTopology
from pk.core.group.streams.member import StreamsMember
from pk.core.group.streams.partition_counts import PartitionCount
from pk.core.wire.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)


class Endpoints:
    """The endpoints of one group."""

    def __init__(self) -> None:
        self.epoch = 0
        self._known: dict[str, EndpointToPartitions] = {}
        """The cached endpoints by member id."""

    def forget(self, member_id: str) -> None:
        """Forget the endpoint of a member whose tasks changed, or that left."""
        self._known.pop(member_id, None)

    def forget_all(self) -> None:
        """Forget all endpoints, because topics have changed."""
        self._known.clear()

    def changed(self, member: StreamsMember) -> None:
        """Begin a new epoch if a member with an endpoint has got other tasks."""
        self.forget(member.member_id)
        if member.endpoint is not None:
            self.epoch += 1

    def all(
        self,
        members: Iterable[StreamsMember],
        configured: ConfiguredTopology,
        count_of: PartitionCount,
    ) -> list[EndpointToPartitions]:
        """Return the endpoints of `members` with their partitions."""
        found: list[EndpointToPartitions] = []
        for member in members:
            if member.endpoint is not None:
                known = self._known.get(member.member_id)
                if known is None:
                    known = self._known[member.member_id] = _endpoint(member, configured, count_of)
                found.append(known)
        return found


def _endpoint(
    member: StreamsMember, configured: ConfiguredTopology, count_of: PartitionCount
) -> EndpointToPartitions:
    assert member.endpoint is not None
    host, port = member.endpoint
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=host, port=port),
        active_partitions=_partitions(member.assigned.active, configured, count_of),
        standby_partitions=_partitions(member.assigned.standby, configured, count_of),
    )


def _partitions(
    tasks: Mapping[str, Collection[int]], configured: ConfiguredTopology, count_of: PartitionCount
) -> list[TopicPartition]:
    """Return the partitions that the tasks read. As in Kafka, a topic with fewer partitions than
    there are tasks has none for the last ones."""
    found: list[TopicPartition] = []
    for subtopology_id in sorted(tasks):
        subtopology = (configured.subtopologies or {}).get(subtopology_id)
        if subtopology is None:
            continue
        for topic in sorted({*subtopology.source_topics, *subtopology.repartition_sources}):
            count = count_of(topic)
            if count is not None:
                partitions = sorted(tasks[subtopology_id])[:count]
                found.append(TopicPartition(topic=topic, partitions=partitions))
    return found
