"""Records of consumer groups, put into force."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pk.core.group.consumer.group import ConsumerGroup, Resolved
from pk.core.group.consumer.records import with_assignment, with_metadata
from pk.core.group.records import Record
from pk.core.group.registry import Groups
from pk.core.wire.messages import offsets_topic as wire
from pk.core.wire.schema import Message

KEYS: Final = (
    wire.ConsumerGroupMetadataKey,
    wire.ConsumerGroupPartitionMetadataKey,
    wire.ConsumerGroupMemberMetadataKey,
    wire.ConsumerGroupTargetAssignmentMetadataKey,
    wire.ConsumerGroupTargetAssignmentMemberKey,
    wire.ConsumerGroupCurrentMemberAssignmentKey,
    wire.ConsumerGroupRegularExpressionKey,
)


def replay(groups: Groups, record: Record) -> None:
    """A record of a consumer group is in the log: put it into force."""
    key, value = record
    group_id: str = getattr(key, "group_id", "")
    group = groups.consumer(group_id)
    if group is None:
        if value is None:
            return  # of a group that has ended, or is a classic one by now
        group = ConsumerGroup(group_id)
        groups.put(group)
    if value is None and isinstance(key, wire.ConsumerGroupMetadataKey):
        del groups[group_id]
    elif value is None:
        _take_away(group, key)
    else:
        _put(group, key, value)


def group_of(group_id: str, records: Iterable[Record]) -> ConsumerGroup:
    """The group that `records` make, by itself."""
    groups = Groups()
    groups.put(ConsumerGroup(group_id))
    for record in records:
        if isinstance(record.key, KEYS):
            replay(groups, record)
    found = groups.consumer(group_id)
    assert found is not None
    return found


def _put(group: ConsumerGroup, key: Message, value: Message) -> None:
    match key, value:
        case wire.ConsumerGroupMetadataKey(), wire.ConsumerGroupMetadataValue():
            group.replay_epoch(value.epoch, value.metadata_hash)
        case wire.ConsumerGroupMemberMetadataKey(), wire.ConsumerGroupMemberMetadataValue():
            group.replay_member(key.member_id, with_metadata(value))
        case (
            wire.ConsumerGroupCurrentMemberAssignmentKey(),
            wire.ConsumerGroupCurrentMemberAssignmentValue(),
        ):
            group.replay_member(key.member_id, with_assignment(value))
        case (
            wire.ConsumerGroupTargetAssignmentMemberKey(),
            wire.ConsumerGroupTargetAssignmentMemberValue(),
        ):
            assignment = {
                topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
            }
            group.replay_target(key.member_id, assignment)
        case (
            wire.ConsumerGroupTargetAssignmentMetadataKey(),
            wire.ConsumerGroupTargetAssignmentMetadataValue(),
        ):
            group.replay_target_epoch(value.assignment_epoch, value.assignment_timestamp)
        case wire.ConsumerGroupRegularExpressionKey(), wire.ConsumerGroupRegularExpressionValue():
            resolved = Resolved(frozenset(value.topics), value.version, value.timestamp)
            group.replay_regex(key.regular_expression, resolved)
        case wire.ConsumerGroupPartitionMetadataKey(), _:
            group.has_partition_metadata = True
        case _:
            raise AssertionError(f"{key!r} is no key of a consumer group")


def _take_away(group: ConsumerGroup, key: Message) -> None:
    match key:
        case wire.ConsumerGroupMemberMetadataKey():
            group.replay_member_tombstone(key.member_id)
        case wire.ConsumerGroupCurrentMemberAssignmentKey():
            group.replay_assignment_tombstone(key.member_id)
        case wire.ConsumerGroupTargetAssignmentMemberKey():
            group.replay_target(key.member_id, None)
        case wire.ConsumerGroupTargetAssignmentMetadataKey():
            group.replay_target_epoch(-1, 0)
        case wire.ConsumerGroupRegularExpressionKey():
            group.replay_regex(key.regular_expression, None)
        case _:
            group.has_partition_metadata = False
