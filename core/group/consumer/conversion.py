"""Groups that change their protocol while they have members (KIP-848,
`group.consumer.migration.policy`).

*Upgrade*: the first member of the consumer protocol joins a classic group of consumers. The earlier
members continue with the classic protocol in a consumer group. Generation, assignment and target
become those of the consumer group, and the new member causes a new epoch.

*Downgrade*: the last member of the consumer protocol leaves. The remaining members are a classic
group in the generation that was the group's epoch, and rebalance.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.group.any_group import AnyGroup
from pk.core.group.assignor import Assignment
from pk.core.group.classic.group import ClassicGroup, Member, State
from pk.core.group.consumer import records
from pk.core.group.consumer.group import ConsumerGroup
from pk.core.group.consumer.member import ClassicMember, ConsumerMember
from pk.core.group.consumer.replay import group_of
from pk.core.group.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from pk.core.group.records import Record
from pk.core.group.settings import ConsumerGroupSettings, DecisionBuilder, GroupSettings
from pk.core.group.timer_keys import JOIN, SESSION, SYNC
from pk.core.group.topics import Topics
from pk.core.values import TopicPartition, Uuid
from pk.core.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from pk.core.wire.messages.join_group import JoinGroupResponse
from pk.core.wire.messages.sync_group import SyncGroupResponse
from pk.core.wire.versioned import decode_versioned


def upgrade(
    group: AnyGroup, topics: Topics, settings: ConsumerGroupSettings, decision: DecisionBuilder
) -> ConsumerGroup:
    """Convert a classic group with members to a consumer group, in which the members and their
    sessions continue.

    Raises the error of `_consumer_records`.
    """
    assert isinstance(group, ClassicGroup)
    converted = _consumer_records(group, topics, settings)
    _answer_waiting(group, decision)
    decision.records += converted
    for member in group.members.values():
        decision.schedule((SESSION, group.group_id, member.member_id), member.session_timeout_ms)
    return group_of(group.group_id, converted)


def _consumer_records(
    group: ClassicGroup, topics: Topics, settings: ConsumerGroupSettings
) -> list[Record]:
    """Return the records that convert a classic group with members to a consumer group, beginning
    with its tombstone.

    Raises GROUP_ID_NOT_FOUND if the group must not be converted: the policy forbids it, its members
    are not consumers, there are too many of them, or their assignor has user data that would be
    lost.
    """
    _check_upgrade(group, settings)
    try:
        members = [_as_consumer(group, member, topics) for member in group.members.values()]
    except ProtocolError as e:
        raise _cannot_upgrade(group, "because the embedded consumer protocol is malformed") from e
    read = {topic for member in members for topic in member.topics}
    group_id, epoch = group.group_id, group.generation
    return [
        *group.tombstones(),
        *(records.member_metadata(group_id, member) for member in members),
        records.group_epoch(group_id, epoch, topics.hash_of(read)),
        *(
            records.target_member(
                group_id, m.member_id, {t: frozenset(ps) for t, ps in m.assigned.items()}
            )
            for m in members
        ),
        records.target_epoch(group_id, epoch, 0),
        *(records.current_assignment(group_id, member) for member in members),
    ]


def _check_upgrade(group: ClassicGroup, settings: ConsumerGroupSettings) -> None:
    if not settings.migration_policy.may_upgrade:
        raise _cannot_upgrade(group, "because online upgrade is disabled")
    if not group.uses_consumer_protocol:
        raise _cannot_upgrade(
            group, "because the group does not use the consumer embedded protocol"
        )
    if len(group.members) > settings.max_size:
        raise _cannot_upgrade(
            group, "because the group size exceeds the consumer group maximum size"
        )


def _cannot_upgrade(group: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group {why}.",
    )


def _as_consumer(group: ClassicGroup, member: Member, topics: Topics) -> ConsumerMember:
    protocol = group.protocol or group.select_protocol()
    subscription = decode_subscription(member.metadata(protocol))
    if _has_user_data(member.assignment):
        raise _cannot_upgrade(
            group,
            "because an unsupported custom assignor is in use. Please refer to the documentation "
            "or switch to a default assignor before re-attempting the upgrade",
        )
    assigned: dict[Uuid, dict[int, int]] = {}
    for topic, partition in decode_assignment(member.assignment):
        known = topics.image.topics.get(topic)
        if known is not None:
            assigned.setdefault(known.topic_id, {})[partition] = group.generation
    return ConsumerMember(
        member.member_id,
        member_epoch=group.generation,
        previous_epoch=group.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        assigned=assigned,
        classic=ClassicMember(member.session_timeout_ms, tuple(member.protocols)),
    )


def _has_user_data(assignment: bytes) -> bool:
    if not assignment:
        return False
    return bool(decode_versioned(ConsumerProtocolAssignment, assignment, newer=True).user_data)


def _answer_waiting(group: ClassicGroup, decision: DecisionBuilder) -> None:
    """Make the members that wait in the classic group's rebalance join again."""
    again = ErrorCode.REBALANCE_IN_PROGRESS
    for member in group.members.values():
        decision.answer(
            group.take_join_token(member),
            JoinGroupResponse(error_code=again, member_id=member.member_id, protocol_name=None),
        )
        token, member.sync_token = member.sync_token, None
        decision.answer(token, SyncGroupResponse(error_code=again))
    decision.cancel((JOIN, group.group_id))
    decision.cancel((SYNC, group.group_id))


def may_downgrade(group: ConsumerGroup, gone: Collection[str], settings: GroupSettings) -> bool:
    """Whether the group becomes a classic one when the members `gone` have left."""
    staying = [m for m in group.members.values() if m.member_id not in gone]
    return (
        bool(staying)
        and all(member.classic is not None for member in staying)
        and settings.consumer.migration_policy.may_downgrade
        and len(staying) <= settings.max_size
    )


def classic_record(
    group: ConsumerGroup, staying: Sequence[ConsumerMember], topics: Topics, now_ms: int
) -> Record:
    """Return the record of a classic group of the members `staying`."""
    classic = ClassicGroup(
        group.group_id,
        State.STABLE,
        state_timestamp_ms=now_ms,
        generation=group.epoch,
        protocol_type="consumer",
    )
    assignments: dict[str, bytes] = {}
    for member in staying:
        classic_member = member.classic
        assert classic_member is not None
        classic.add(
            Member(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                classic_member.session_timeout_ms,
                list(classic_member.protocols),
            ),
            None,
        )
        assignments[member.member_id] = assignment_bytes(
            group.target_of(member), classic_member, topics
        )
    classic.protocol = classic.select_protocol()
    return classic.record(assignments)


def assignment_bytes(assignment: Assignment, classic: ClassicMember, topics: Topics) -> bytes:
    """Encode an assignment for a classic member. Deleted topics are left out."""
    named = [
        TopicPartition(name, partition)
        for topic_id, partitions in assignment.items()
        if (name := topics.name(topic_id)) is not None
        for partition in sorted(partitions)
    ]
    return encode_assignment(named, version=classic.subscription_version)
