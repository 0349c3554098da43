"""The records of streams groups in `__consumer_offsets`, as Kafka 4.3.1 writes them.

A member is deleted by tombstones in this order: its assignment, its target, the member. A group is
deleted by the tombstone of its epoch, which the tombstone of its topology follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pk.core.group.java import java_order
from pk.core.group.records import Record
from pk.core.group.streams.member import Endpoint, MemberState, StreamsMember
from pk.core.group.streams.tasks import EpochTasks, HeldTasks, Tasks, TaskSet, task_set
from pk.core.group.streams.topology import Topology
from pk.core.wire.messages import offsets_topic_streams as wire


def group_epoch(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    assignment_configs: Mapping[str, str],
) -> Record:
    """The record of a new group epoch, which requires a new target assignment."""
    return Record(
        wire.StreamsGroupMetadataKey(group_id=group_id),
        wire.StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=[
                wire.LastAssignmentConfig(key=key, value=assignment_configs[key])
                for key in sorted(assignment_configs, key=java_order)
            ],
        ),
    )


def topology(group_id: str, found: Topology) -> Record:
    """The record of the group's topology."""
    return Record(wire.StreamsGroupTopologyKey(group_id=group_id), found.record())


def member_metadata(group_id: str, member: StreamsMember) -> Record:
    """The record of a member's own description."""
    endpoint = member.endpoint
    return Record(
        wire.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        wire.StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=None
            if endpoint is None
            else wire.Endpoint(host=endpoint.host, port=endpoint.port),
            client_tags=[
                wire.KeyValue(key=key, value=member.client_tags[key])
                for key in sorted(member.client_tags, key=java_order)
            ],
        ),
    )


def with_metadata(value: wire.StreamsGroupMemberMetadataValue) -> dict[str, Any]:
    """Return the fields of a member that its metadata record sets."""
    endpoint = value.user_endpoint
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "topology_epoch": value.topology_epoch,
        "process_id": value.process_id,
        "endpoint": None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        "client_tags": {tag.key: tag.value for tag in value.client_tags},
    }


def current_assignment(group_id: str, member: StreamsMember) -> Record:
    """The record of a member's epoch and current tasks."""
    held, revoking = member.assigned, member.revoking
    return Record(
        wire.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        wire.StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state.value,
            active_tasks=_ids_with_epochs(held.active),
            standby_tasks=_ids(held.standby),
            warmup_tasks=_ids(held.warmup),
            active_tasks_pending_revocation=_ids_with_epochs(revoking.active),
            standby_tasks_pending_revocation=_ids(revoking.standby),
            warmup_tasks_pending_revocation=_ids(revoking.warmup),
        ),
    )


def with_assignment(value: wire.StreamsGroupCurrentMemberAssignmentValue) -> dict[str, Any]:
    """Return the fields of a member that the record of its assignment sets."""
    epoch = value.member_epoch
    return {
        "member_epoch": epoch,
        "previous_epoch": value.previous_member_epoch,
        "state": MemberState.of(value.state),
        "assigned": HeldTasks(
            _epochs(value.active_tasks, epoch),
            task_set(value.standby_tasks),
            task_set(value.warmup_tasks),
        ),
        "revoking": HeldTasks(
            _epochs(value.active_tasks_pending_revocation, epoch),
            task_set(value.standby_tasks_pending_revocation),
            task_set(value.warmup_tasks_pending_revocation),
        ),
    }


def target_member(group_id: str, member_id: str, tasks: Tasks) -> Record:
    """The record of a member's target tasks."""
    return Record(
        wire.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        wire.StreamsGroupTargetAssignmentMemberValue(
            active_tasks=_target_ids(tasks.active),
            standby_tasks=_target_ids(tasks.standby),
            warmup_tasks=_target_ids(tasks.warmup),
        ),
    )


def target_of(value: wire.StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    """Return the tasks in a record of a target assignment."""
    return Tasks(
        task_set(value.active_tasks), task_set(value.standby_tasks), task_set(value.warmup_tasks)
    )


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The record that completes the target assignment of `epoch`."""
    return Record(
        wire.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        wire.StreamsGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """The records that delete a member."""
    names = {"group_id": group_id, "member_id": member_id}
    return [
        Record(wire.StreamsGroupCurrentMemberAssignmentKey(**names), None),
        Record(wire.StreamsGroupTargetAssignmentMemberKey(**names), None),
        Record(wire.StreamsGroupMemberMetadataKey(**names), None),
    ]


def group_tombstones(group_id: str) -> list[Record]:
    """The records that delete a group without members."""
    return [
        Record(wire.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        Record(wire.StreamsGroupMetadataKey(group_id=group_id), None),
        Record(wire.StreamsGroupTopologyKey(group_id=group_id), None),
    ]


def _ids(tasks: TaskSet) -> list[wire.TaskIds]:
    return [
        wire.TaskIds(subtopology_id=subtopology_id, partitions=sorted(tasks[subtopology_id]))
        for subtopology_id in sorted(tasks, key=java_order)
    ]


def _ids_with_epochs(tasks: EpochTasks) -> list[wire.TaskIds]:
    ids: list[wire.TaskIds] = []
    for subtopology_id in sorted(tasks, key=java_order):
        partitions = sorted(tasks[subtopology_id])
        epochs = [tasks[subtopology_id][partition] for partition in partitions]
        ids.append(
            wire.TaskIds(
                subtopology_id=subtopology_id, partitions=partitions, assignment_epochs=epochs
            )
        )
    return ids


def _target_ids(tasks: TaskSet) -> list[wire.StreamsGroupTargetAssignmentMemberTaskIds]:
    return [
        wire.StreamsGroupTargetAssignmentMemberTaskIds(
            subtopology_id=subtopology_id, partitions=sorted(tasks[subtopology_id])
        )
        for subtopology_id in sorted(tasks, key=java_order)
    ]


def _epochs(ids: Iterable[wire.TaskIds], epoch: int) -> dict[str, dict[int, int]]:
    """Return active tasks with their epochs. Records of brokers before 4.3 have none; `epoch`
    stands in."""
    found: dict[str, dict[int, int]] = {}
    for each in ids:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [epoch] * len(each.partitions)
        found[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return found
