"""The fields of a ConsumerGroupHeartbeat, and their validation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerMember,
)
from pk.core.group.consumer.reconcile import Owned
from pk.core.group.settings import Client
from pk.core.values import STRING_BYTES_MAX
from pk.core.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

MEMBER_ID_SINCE = 1
"""The version from which the client generates the member id."""


def check_request(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]
) -> None:
    """Raise INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for a request that no group accepts."""
    epoch = request.member_epoch
    if version >= MEMBER_ID_SINCE or epoch > 0 or epoch == LEAVE_EPOCH:
        _not_empty(request.member_id, "MemberId")
    _not_empty(request.group_id, "GroupId")
    _not_empty(request.instance_id, "InstanceId")
    _not_empty(request.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                "(re-)joining."
            )
    elif epoch == LEAVE_STATIC_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _not_empty(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def member_updates(request: ConsumerGroupHeartbeatRequest, client: Client) -> dict[str, Any]:
    """Return the fields of the member that the request sets. The others stay as they are."""
    updates: dict[str, Any] = {
        "client_id": client.client_id[:STRING_BYTES_MAX],
        "client_host": client.client_host,
        "classic": None,
    }
    if request.instance_id is not None:
        updates["instance_id"] = request.instance_id
    if request.rack_id is not None:
        updates["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        updates["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.subscribed_topic_names is not None:
        updates["topics"] = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        updates["regex"] = request.subscribed_topic_regex
    if request.server_assignor is not None:
        updates["assignor"] = request.server_assignor
    return updates


def differs(member: ConsumerMember, updates: Mapping[str, Any]) -> bool:
    """Whether any field of the member differs from `updates`."""
    return any(getattr(member, name) != value for name, value in updates.items())


def owned_by(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    """Return the partitions that the member reports as held, or None if it reports nothing."""
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: topic.partitions for topic in request.topic_partitions}


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member sends all fields, as it does after an error. It then needs a complete
    response."""
    subscribes = (
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    )
    return (
        request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None
    )


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Raise FENCED_MEMBER_EPOCH for an epoch other than the member's.

    The previous epoch is accepted if the member holds only partitions that it may hold, because the
    response with the new epoch may have been lost.
    """
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    lost_answer = (
        epoch == member.previous_epoch
        and epoch < member.member_epoch
        and owned is not None
        and all(
            partition in member.assigned.get(topic_id, ())
            for topic_id, partitions in owned.items()
            for partition in partitions
        )
    )
    if not lost_answer:
        compared = "greater" if epoch > member.member_epoch else "smaller"
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {compared} member epoch ({epoch}) than the one "
            f"known by the group coordinator ({member.member_epoch}). The member must abandon all "
            f"its partitions and rejoin.",
        )


def check_instance(member: ConsumerMember, member_id: str, instance_id: str) -> None:
    """Raise FENCED_INSTANCE_ID if the instance id now belongs to another member."""
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
