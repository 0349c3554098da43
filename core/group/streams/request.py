"""The fields of a StreamsGroupHeartbeat, and their validation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.settings import Client
from pk.core.group.streams.configured import ConfiguredSubtopology
from pk.core.group.streams.member import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    Endpoint,
    StreamsMember,
)
from pk.core.group.streams.tasks import Tasks, task_set
from pk.core.group.streams.topology import invalid_topology
from pk.core.meta.topic_names import is_name
from pk.core.values import INTERNAL_TOPICS, STRING_BYTES_MAX
from pk.core.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    Topology,
)

NAMED_MAX: Final = 100
"""The maximum number of topics that an error names."""


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY for a request that no group accepts.

    As in Kafka 4.3.1, static members, regular expressions, warm-up tasks and offsets of tasks are
    refused.
    """
    topology = request.topology
    if topology is not None:
        _check_topics(topology)
    _check_supported(request)
    _not_empty(request.member_id, "MemberId")
    _not_empty(request.group_id, "GroupId")
    _not_empty(request.rack_id, "RackId")
    epoch = request.member_epoch
    kinds = {
        "ActiveTasks": request.active_tasks,
        "StandbyTasks": request.standby_tasks,
        "WarmupTasks": request.warmup_tasks,
    }
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        for name, tasks in kinds.items():
            if tasks is None or tasks:
                raise _invalid(f"{name} must be empty when (re-)joining.")
        if topology is None:
            raise _invalid("Topology must be non-null when (re-)joining.")
        _check_changelogs(topology)
    elif epoch == LEAVE_STATIC_EPOCH:
        raise _invalid("InstanceId can't be null.")  # Static members were refused above.
    elif epoch < LEAVE_STATIC_EPOCH:
        raise _invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    if len({tasks is None for tasks in kinds.values()}) > 1:
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if epoch != JOIN_EPOCH and topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_topics(topology: Topology) -> None:
    internal: dict[str, None] = {}
    invalid: dict[str, None] = {}
    for each in topology.subtopologies:
        for topic in _topics_of(each):
            if topic in INTERNAL_TOPICS:
                internal[topic] = None
            elif not is_name(topic) and len(invalid) < NAMED_MAX:
                invalid[topic] = None
    if internal:
        raise invalid_topology(
            f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is "
            "prohibited."
        )
    if invalid:
        raise invalid_topology(f"Topic names {','.join(invalid)} are not valid topic names.")


def _topics_of(subtopology: Subtopology) -> Iterator[str]:
    return chain(
        subtopology.source_topics,
        subtopology.repartition_sink_topics,
        (topic.name for topic in subtopology.repartition_source_topics),
        (topic.name for topic in subtopology.state_changelog_topics),
    )


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    if request.instance_id is not None:
        raise _invalid("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise _invalid("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise _invalid("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise _invalid("WarmupTasks are not supported yet.")
    if request.topology is not None and any(
        each.source_topic_regex for each in request.topology.subtopologies
    ):
        raise _invalid("Regular expressions for source topics are not supported yet.")


def _check_changelogs(topology: Topology) -> None:
    for each in topology.subtopologies:
        for topic in each.state_changelog_topics:
            if topic.partitions:
                raise invalid_topology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it "
                    f"is set to {topic.partitions}."
                )


def _not_empty(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def member_updates(request: StreamsGroupHeartbeatRequest, client: Client) -> dict[str, Any]:
    """Return the fields of the member that the request sets. The others stay as they are."""
    updates: dict[str, Any] = {
        "client_id": client.client_id[:STRING_BYTES_MAX],
        "client_host": client.client_host,
    }
    if request.rack_id is not None:
        updates["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        updates["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.topology is not None:
        updates["topology_epoch"] = request.topology.epoch
    if request.process_id is not None:
        updates["process_id"] = request.process_id
    if request.client_tags is not None:
        updates["client_tags"] = {tag.key: tag.value for tag in request.client_tags}
    if request.user_endpoint is not None:
        updates["endpoint"] = Endpoint(request.user_endpoint.host, request.user_endpoint.port)
    return updates


def owned_by(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Return the tasks that the member reports as held, or None if it reports nothing."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return Tasks(task_set(active), task_set(standby), task_set(warmup))


def check_epoch(member: StreamsMember, epoch: int, owned: Tasks | None) -> None:
    """Raise FENCED_MEMBER_EPOCH for an epoch other than the member's.

    The previous epoch is accepted if the member holds only tasks that it may hold, because the
    response with the new epoch may have been lost.
    """
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    held = member.assigned
    lost_answer = (
        epoch == member.previous_epoch
        and epoch < member.member_epoch
        and owned is not None
        and _within(owned.active, held.active)
        and _within(owned.standby, held.standby)
        and _within(owned.warmup, held.warmup)
    )
    if not lost_answer:
        compared = "greater" if epoch > member.member_epoch else "smaller"
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The streams group member has a {compared} member epoch ({epoch}) than the one known "
            f"by the group coordinator ({member.member_epoch}). The member must abandon all its "
            "partitions and rejoin.",
        )


def _within(owned: Mapping[str, frozenset[int]], held: Mapping[str, Collection[int]]) -> bool:
    return all(
        subtopology_id in held and partitions <= frozenset(held[subtopology_id])
        for subtopology_id, partitions in owned.items()
    )


def check_tasks(
    tasks: list[TaskIds] | None, subtopologies: Mapping[str, ConfiguredSubtopology]
) -> None:
    """Raise INVALID_REQUEST for tasks that the topology does not have."""
    for each in tasks or ():
        subtopology = subtopologies.get(each.subtopology_id)
        if subtopology is None:
            raise _invalid(f"Subtopology {each.subtopology_id} does not exist in the topology.")
        for partition in each.partitions:
            if not 0 <= partition < subtopology.tasks:
                raise _invalid(
                    f"Task {partition} for subtopology {each.subtopology_id} is invalid. Number "
                    f"of tasks for this subtopology: {subtopology.tasks}"
                )
