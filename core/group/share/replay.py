"""Applies the records of share groups."""

from __future__ import annotations

from pk.core.group.share.group import ShareGroup
from pk.core.group.share.records import SharedTopic, StatePartitions
from pk.core.wire.messages import offsets_topic_share as wire
from pk.core.wire.schema import Message

KEYS = (
    wire.ShareGroupMemberMetadataKey,
    wire.ShareGroupMetadataKey,
    wire.ShareGroupTargetAssignmentMetadataKey,
    wire.ShareGroupTargetAssignmentMemberKey,
    wire.ShareGroupCurrentMemberAssignmentKey,
    wire.ShareGroupStatePartitionMetadataKey,
)


def replay(group: ShareGroup, key: Message, value: Message) -> None:
    """Apply a record of `group` that is not a tombstone."""
    match key, value:
        case wire.ShareGroupMetadataKey(), wire.ShareGroupMetadataValue():
            group.replay_epoch(value.epoch, value.metadata_hash)
        case wire.ShareGroupMemberMetadataKey(), wire.ShareGroupMemberMetadataValue():
            fields = {
                "rack_id": value.rack_id,
                "client_id": value.client_id,
                "client_host": value.client_host,
                "topics": frozenset(value.subscribed_topic_names),
            }
            group.replay_member(key.member_id, fields)
        case (
            wire.ShareGroupCurrentMemberAssignmentKey(),
            wire.ShareGroupCurrentMemberAssignmentValue(),
        ):
            assigned = {t.topic_id: frozenset(t.partitions) for t in value.assigned_partitions}
            group.replay_member(
                key.member_id,
                {
                    "member_epoch": value.member_epoch,
                    "previous_epoch": value.previous_member_epoch,
                    "assigned": assigned,
                },
            )
        case (
            wire.ShareGroupTargetAssignmentMemberKey(),
            wire.ShareGroupTargetAssignmentMemberValue(),
        ):
            target = {t.topic_id: frozenset(t.partitions) for t in value.topic_partitions}
            group.replay_target(key.member_id, target)
        case (
            wire.ShareGroupTargetAssignmentMetadataKey(),
            wire.ShareGroupTargetAssignmentMetadataValue(),
        ):
            group.replay_target_epoch(value.assignment_epoch, value.assignment_timestamp)
        case (
            wire.ShareGroupStatePartitionMetadataKey(),
            wire.ShareGroupStatePartitionMetadataValue(),
        ):
            group.replay_state_partitions(
                StatePartitions(
                    _shared(value.initializing_topics),
                    _shared(value.initialized_topics),
                    {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
                )
            )
        case _:
            raise AssertionError(f"{key!r} is no key of a share group")


def _shared(topics: list[wire.TopicPartitionsInfo]) -> dict[bytes, SharedTopic]:
    return {t.topic_id: SharedTopic(t.topic_name, frozenset(t.partitions)) for t in topics}
