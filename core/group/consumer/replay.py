"""Applies the records of consumer groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pk.core.group.consumer.group import ConsumerGroup, Resolved
from pk.core.group.consumer.records import with_assignment, with_metadata
from pk.core.group.records import Record
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


def group_of(group_id: str, records: Iterable[Record]) -> ConsumerGroup:
    """Return the group that `records` create. Records of the classic group that it was are
    skipped."""
    group = ConsumerGroup(group_id)
    for key, value in records:
        if isinstance(key, KEYS):
            assert value is not None
            replay(group, key, value)
    return group


def replay(group: ConsumerGroup, key: Message, value: Message) -> None:
    """Apply a record of `group` that is not a tombstone."""
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
