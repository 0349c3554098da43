"""Applies the records of streams groups."""

from __future__ import annotations

from typing import Final

from pk.core.group.streams.group import StreamsGroup
from pk.core.group.streams.records import target_of, with_assignment, with_metadata
from pk.core.group.streams.topology import topology_of_record
from pk.core.wire.messages import offsets_topic_streams as wire
from pk.core.wire.schema import Message

KEYS: Final = (
    wire.StreamsGroupMetadataKey,
    wire.StreamsGroupTopologyKey,
    wire.StreamsGroupMemberMetadataKey,
    wire.StreamsGroupTargetAssignmentMetadataKey,
    wire.StreamsGroupTargetAssignmentMemberKey,
    wire.StreamsGroupCurrentMemberAssignmentKey,
)


def replay(group: StreamsGroup, key: Message, value: Message) -> None:
    """Apply a record of `group` that is not a tombstone."""
    match key, value:
        case wire.StreamsGroupMetadataKey(), wire.StreamsGroupMetadataValue():
            group.replay_epoch(
                value.epoch,
                value.metadata_hash,
                value.validated_topology_epoch,
                {config.key: config.value for config in value.last_assignment_configs or ()},
            )
        case wire.StreamsGroupTopologyKey(), wire.StreamsGroupTopologyValue():
            group.replay_topology(topology_of_record(value))
        case wire.StreamsGroupMemberMetadataKey(), wire.StreamsGroupMemberMetadataValue():
            group.replay_member(key.member_id, with_metadata(value))
        case (
            wire.StreamsGroupCurrentMemberAssignmentKey(),
            wire.StreamsGroupCurrentMemberAssignmentValue(),
        ):
            group.replay_member(key.member_id, with_assignment(value))
        case (
            wire.StreamsGroupTargetAssignmentMemberKey(),
            wire.StreamsGroupTargetAssignmentMemberValue(),
        ):
            group.replay_target(key.member_id, target_of(value))
        case (
            wire.StreamsGroupTargetAssignmentMetadataKey(),
            wire.StreamsGroupTargetAssignmentMetadataValue(),
        ):
            group.replay_target_epoch(value.assignment_epoch, value.assignment_timestamp)
        case _:
            raise AssertionError(f"{key!r} is no key of a streams group")
