"""The response to StreamsGroupDescribe for a group."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pk.core.group.java import java_order
from pk.core.group.streams.configured import ConfiguredSubtopology
from pk.core.group.streams.group import StreamsGroup
from pk.core.group.streams.member import StreamsMember
from pk.core.group.streams.tasks import Tasks
from pk.core.wire.messages import offsets_topic_streams as records
from pk.core.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)


def describe(group: StreamsGroup) -> DescribedGroup:
    """Describe a group."""
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
    )
    for member in group.members.values():
        described.members.append(_member(group, member))
    return described


def _topology(group: StreamsGroup) -> Topology | None:
    """Return the topology, with the partition counts that the broker decided once all of its topics
    exist."""
    configured, topology = group.configured, group.topology
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        return Topology(
            epoch=configured.epoch,
            subtopologies=[
                _configured(subtopology_id, each)
                for subtopology_id, each in configured.subtopologies.items()
            ],
        )
    if topology is None:
        return None
    return Topology(
        epoch=topology.epoch,
        subtopologies=[
            _subtopology(
                subtopology_id,
                each.source_topics,
                each.repartition_sink_topics,
                each.repartition_source_topics,
                each.state_changelog_topics,
            )
            for subtopology_id, each in sorted(
                topology.subtopologies.items(), key=lambda item: java_order(item[0])
            )
        ],
    )


def _configured(subtopology_id: str, found: ConfiguredSubtopology) -> Subtopology:
    return _subtopology(
        subtopology_id,
        set(found.source_topics),
        set(found.repartition_sinks),
        found.repartition_sources.values(),
        found.changelogs.values(),
    )


def _subtopology(
    subtopology_id: str,
    sources: Collection[str],
    sinks: Collection[str],
    repartitions: Collection[records.TopicInfo],
    changelogs: Collection[records.TopicInfo],
) -> Subtopology:
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=sorted(sources, key=java_order),
        repartition_sink_topics=sorted(sinks, key=java_order),
        repartition_source_topics=_infos(repartitions),
        state_changelog_topics=_infos(changelogs),
    )


def _infos(topics: Collection[records.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[
                KeyValue(key=config.key, value=config.value) for config in topic.topic_configs
            ],
        )
        for topic in sorted(topics, key=lambda topic: java_order(topic.name))
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    endpoint = member.endpoint
    held = member.assigned
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None
        if endpoint is None
        else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[
            KeyValue(key=key, value=member.client_tags[key]) for key in sorted(member.client_tags)
        ],
        assignment=_assignment(held.active, held.standby, held.warmup),
        target_assignment=_target(group.target_of(member.member_id)),
    )


def _target(tasks: Tasks) -> Assignment:
    return _assignment(tasks.active, tasks.standby, tasks.warmup)


def _assignment(
    active: Mapping[str, Collection[int]],
    standby: Mapping[str, Collection[int]],
    warmup: Mapping[str, Collection[int]],
) -> Assignment:
    return Assignment(
        active_tasks=_ids(active), standby_tasks=_ids(standby), warmup_tasks=_ids(warmup)
    )


def _ids(tasks: Mapping[str, Collection[int]]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=sorted(tasks[subtopology_id]))
        for subtopology_id in sorted(tasks, key=java_order)
    ]
