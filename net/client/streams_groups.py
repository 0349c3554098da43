"""The description of streams groups for an admin client (KIP-1071): StreamsGroupDescribe.

The broker describes tasks; the partitions that a task reads follow from the topology and the
partition counts of the source topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pk.core.values import TopicPartition
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pk.core.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
    TaskIds,
    Topology,
)
from pk.net.client import results as r
from pk.net.client.admin_operations.base import failure
from pk.net.client.answers import Answers
from pk.net.client.connection import Connection


async def describe_streams_groups(
    connection: Connection, group_ids: Sequence[str], operations: bool
) -> Answers[str, r.GroupDescription]:
    """Describe the streams groups among `group_ids` that this broker coordinates."""
    request = StreamsGroupDescribeRequest(
        group_ids=list(group_ids), include_authorized_operations=operations
    )
    response = await connection.request(request)
    counts = await _partition_counts(connection, response.groups)
    return Answers(
        (g.group_id, failure(g.error_code, g.error_message) or _group(connection, g, counts))
        for g in response.groups
    )


async def _partition_counts(
    connection: Connection, groups: Iterable[DescribedGroup]
) -> dict[str, int]:
    """Return the partition counts of topics that a subtopology reads together with other topics.
    These may have fewer partitions than there are tasks."""
    names = {
        topic
        for group in groups
        for sources in _sources(group.topology).values()
        if len(sources) > 1
        for topic in sources
    }
    if not names:
        return {}
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in sorted(names)],
        allow_auto_topic_creation=False,
    )
    answer = await connection.request(request, low=4)
    return {topic.name: len(topic.partitions) for topic in answer.topics if topic.name is not None}


def _sources(topology: Topology | None) -> dict[str, list[str]]:
    """Map subtopology ids to the topics that the subtopologies read."""
    subtopologies = [] if topology is None else topology.subtopologies or []
    return {
        each.subtopology_id: [
            *each.source_topics,
            *(topic.name for topic in each.repartition_source_topics),
        ]
        for each in subtopologies
    }


def _group(
    connection: Connection, group: DescribedGroup, counts: Mapping[str, int]
) -> r.GroupDescription:
    sources = _sources(group.topology)
    return r.GroupDescription(
        group.group_id,
        "Streams",
        group.group_state,
        "streams",
        "sticky",
        tuple(_member(member, sources, counts) for member in group.members),
        connection.node,
        group.group_epoch,
        group.assignment_epoch,
        group.authorized_operations,
        _topology(group.topology),
    )


def _member(
    member: Member, sources: Mapping[str, Sequence[str]], counts: Mapping[str, int]
) -> r.MemberDescription:
    endpoint = member.user_endpoint
    return r.MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _partitions(member.assignment.active_tasks, sources, counts),
        tuple(sorted({topic for topics in sources.values() for topic in topics})),
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        target_assignment=_partitions(member.target_assignment.active_tasks, sources, counts),
        streams=r.StreamsMember(
            member.process_id,
            member.topology_epoch,
            _tasks(member.assignment),
            _tasks(member.target_assignment),
            None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
        ),
    )


def _partitions(
    tasks: Iterable[TaskIds], sources: Mapping[str, Sequence[str]], counts: Mapping[str, int]
) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic, partition)
        for each in tasks
        for topic in sources.get(each.subtopology_id, ())
        for partition in each.partitions
        if partition < counts.get(topic, partition + 1)
    )


def _tasks(assignment: Assignment) -> r.StreamsTasks:
    def of(kind: Iterable[TaskIds]) -> tuple[r.StreamsTask, ...]:
        return tuple(
            r.StreamsTask(each.subtopology_id, p) for each in kind for p in each.partitions
        )

    return r.StreamsTasks(
        of(assignment.active_tasks), of(assignment.standby_tasks), of(assignment.warmup_tasks)
    )


def _topology(topology: Topology | None) -> r.StreamsTopology | None:
    if topology is None:
        return None
    return r.StreamsTopology(
        topology.epoch,
        tuple(
            r.StreamsSubtopology(
                each.subtopology_id,
                tuple(each.source_topics),
                tuple(topic.name for topic in each.repartition_source_topics),
                tuple(each.repartition_sink_topics),
                tuple(topic.name for topic in each.state_changelog_topics),
            )
            for each in topology.subtopologies or ()
        ),
    )
