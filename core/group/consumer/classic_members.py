"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

While a group migrates between the protocols, some members use each (KIP-848). To a classic member,
the group appears to rebalance cooperatively. The member's generation is its member epoch, and it
never leads. A JoinGroup is answered at once, like a heartbeat of the consumer protocol. A heartbeat
tells the member to rejoin when its assignment must change. SyncGroup returns the partitions that
the member may read now.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.group.consumer.conversion import assignment_bytes
from pk.core.group.consumer.group import ConsumerGroup
from pk.core.group.consumer.groups import ConsumerGroups
from pk.core.group.consumer.member import ClassicMember, ConsumerMember, MemberState
from pk.core.group.consumer.reconcile import Owned
from pk.core.group.consumer.request import check_instance, differs
from pk.core.group.consumer_protocol import Subscription, decode_subscription
from pk.core.group.join import Join
from pk.core.group.settings import DecisionBuilder, MigrationPolicy
from pk.core.group.timer_keys import JOIN, REPLACED, SESSION, SYNC
from pk.core.values import Uuid
from pk.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pk.core.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from pk.core.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from pk.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

SEVERAL_MEMBERS_SINCE: Final = 3
"""The first version of LeaveGroup that names several members."""

CONSUMER: Final = "consumer"


class ClassicMembers:
    """Handles requests of classic members of the consumer groups in `consumer`."""

    def __init__(self, consumer: ConsumerGroups) -> None:
        self._consumer = consumer

    def join(self, group: ConsumerGroup, join: Join, decision: DecisionBuilder) -> None:
        """Decide a JoinGroup to a group that has members. It is answered at once."""
        try:
            with decision:
                response = self._join(group, join, decision)
        except KafkaError as e:
            response = JoinGroupResponse(
                error_code=e.code, member_id=join.request.member_id, protocol_name=None
            )
        decision.answer(join.token, response)

    def _join(
        self, group: ConsumerGroup, join: Join, decision: DecisionBuilder
    ) -> JoinGroupResponse:
        consumer, request = self._consumer, join.request
        _check_join(group, request, consumer.settings.consumer.migration_policy)
        member_id = request.member_id or consumer.new_id()
        consumer.check_room(group, member_id)
        instance_id = request.group_instance_id
        is_new = not request.member_id
        if join.needs_member_id:
            return JoinGroupResponse(
                error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id, protocol_name=None
            )
        subscription = _subscription(request)
        if instance_id is None:
            member = group.members.get(member_id) or ConsumerMember(member_id)
        else:
            member = consumer.static_member(
                group, instance_id, member_id, None, joins=is_new, decision=decision
            )
        updates = _member_updates(join, subscription, member)
        updated = replace(member, **updates) if differs(member, updates) else member
        advance = consumer.advance(group, member, updated, decision)
        owned = self._owned(subscription)
        updated = consumer.reconcile(group, updated, advance, owned, decision)
        group_id = group.group_id
        group.joining.discard(member_id)
        decision.cancel((JOIN, group_id, member_id))
        decision.schedule((SESSION, group_id, member_id), request.session_timeout_ms)
        decision.schedule((SYNC, group_id, member_id), updated.rebalance_timeout_ms)
        assert updated.classic is not None
        if is_new and instance_id is not None and group.static_member(instance_id) is not None:
            decision.schedule((REPLACED, group_id), 0)
        return JoinGroupResponse(
            generation_id=updated.member_epoch,
            protocol_type=CONSUMER,
            protocol_name=updated.classic.protocol,
            member_id=member_id,
        )

    def _owned(self, subscription: Subscription) -> Owned:
        topics = self._consumer.topics.image.topics
        owned: dict[Uuid, list[int]] = {}
        for name, partition in subscription.owned:
            if name in topics:
                owned.setdefault(topics[name].topic_id, []).append(partition)
        return owned

    def sync(
        self,
        group: ConsumerGroup,
        request: SyncGroupRequest,
        token: Hashable,
        decision: DecisionBuilder,
    ) -> None:
        """Decide SyncGroup, which is answered through `token`, at once."""
        try:
            member, classic = _classic_member(group, request.member_id, request.group_instance_id)
            _check_generation(member, request.generation_id)
            _check_protocol(classic, request)
            if (
                group.assignment_epoch > member.member_epoch
                and member.state is not MemberState.UNREVOKED_PARTITIONS
            ):
                self._expect_join(group, member, decision)
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        except KafkaError as e:
            decision.answer(token, SyncGroupResponse(error_code=e.code))
            return
        decision.cancel((SYNC, group.group_id, member.member_id))
        decision.schedule((SESSION, group.group_id, member.member_id), classic.session_timeout_ms)
        assigned = {topic_id: frozenset(ps) for topic_id, ps in member.assigned.items()}
        decision.answer(
            token,
            SyncGroupResponse(
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=assignment_bytes(assigned, classic, self._consumer.topics),
            ),
        )

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, decision: DecisionBuilder
    ) -> None:
        """Decide Heartbeat. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION."""
        member, classic = _classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        decision.schedule((SESSION, group.group_id, member.member_id), classic.session_timeout_ms)
        decision.reply = HeartbeatResponse()
        if (
            member.member_epoch < group.assignment_epoch
            or self._consumer.target_is_due(group, group.epoch, decision.now_ms)
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (
                member.state is MemberState.UNRELEASED_PARTITIONS
                and not _waits_for_others(group, member)
            )
        ):
            decision.reply.error_code = ErrorCode.REBALANCE_IN_PROGRESS
            self._expect_join(group, member, decision)

    def _expect_join(
        self, group: ConsumerGroup, member: ConsumerMember, decision: DecisionBuilder
    ) -> None:
        if member.member_id not in group.joining:
            group.joining.add(member.member_id)
            key = (JOIN, group.group_id, member.member_id)
            decision.schedule(key, member.rebalance_timeout_ms)

    def leave(
        self,
        group: ConsumerGroup,
        request: LeaveGroupRequest,
        version: int,
        decision: DecisionBuilder,
    ) -> None:
        """Decide LeaveGroup, which names members by id or, from an admin, static members by
        instance id alone. It can also remove members of the consumer protocol."""
        identities = (
            request.members
            if version >= SEVERAL_MEMBERS_SINCE
            else [MemberIdentity(member_id=request.member_id)]
        )
        going: dict[str, ConsumerMember] = {}
        results: list[MemberResponse] = []
        for identity in identities:
            result = MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id
            )
            results.append(result)
            member = _named(group, identity)
            if isinstance(member, ErrorCode):
                result.error_code = member
            else:
                going[member.member_id] = member
        self._consumer.fence(group, list(going.values()), decision)
        if version >= SEVERAL_MEMBERS_SINCE:
            decision.reply = LeaveGroupResponse(members=results)
        else:
            decision.reply = LeaveGroupResponse(error_code=results[0].error_code)


def _check_join(group: ConsumerGroup, request: JoinGroupRequest, policy: MigrationPolicy) -> None:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    names = [protocol.name for protocol in request.protocols]
    if policy is MigrationPolicy.DISABLED or not group.supports_classic(
        request.protocol_type, names
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _subscription(request: JoinGroupRequest) -> Subscription:
    """Decode the subscription of the first protocol; all protocols have the same. Raises
    INCONSISTENT_GROUP_PROTOCOL."""
    try:
        return decode_subscription(request.protocols[0].metadata)
    except (ProtocolError, IndexError):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from None


def _member_updates(
    join: Join, subscription: Subscription, member: ConsumerMember
) -> dict[str, Any]:
    request = join.request
    return {
        "client_id": join.client.client_id,
        "client_host": join.client.client_host,
        "instance_id": request.group_instance_id or member.instance_id,
        "rack_id": subscription.rack or member.rack_id,
        "rebalance_timeout_ms": join.rebalance_timeout_ms,
        "topics": frozenset(subscription.topics),
        "regex": "",
        "classic": ClassicMember(request.session_timeout_ms, tuple(join.protocols)),
    }


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMember]:
    if instance_id is None:
        member = group.member(member_id)
    else:
        holder = group.static_member(instance_id)
        if holder is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        check_instance(holder, member_id, instance_id)
        member = holder
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member, member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _check_protocol(classic: ClassicMember, request: SyncGroupRequest) -> None:
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (
        None,
        classic.protocol,
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether another member still holds a partition of the member's target."""
    return any(
        partition not in member.assigned.get(topic_id, ()) and group.is_held(topic_id, partition)
        for topic_id, partitions in group.target_of(member).items()
        for partition in partitions
    )


def _named(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember | ErrorCode:
    """Return the member to remove, or the error if it cannot leave."""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if instance_id is None:
        member = group.members.get(member_id)
    else:
        member = group.static_member(instance_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if instance_id is not None and member_id and member.member_id != member_id:
        return ErrorCode.FENCED_INSTANCE_ID
    return member
