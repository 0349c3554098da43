"""Records of streams groups, put into force."""

from __future__ import annotations

from typing import Final

from pk.core.group.records import Record
from pk.core.group.registry import Groups
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


def replay(groups: Groups, record: Record) -> None:
    """A record of a streams group is in the log: put it into force."""
    key, value = record
    group_id: str = getattr(key, "group_id", "")
    group = groups.streams(group_id)
    if group is None:
        if value is None:
            return  # of a group that has ended, or is of another type by now
        group = StreamsGroup(group_id)
        groups.put(group)
    if value is None and isinstance(key, wire.StreamsGroupMetadataKey):
        del groups[group_id]
    elif value is None:
        _take_away(group, key)
    else:
        _put(group, key, value)


def _put(group: StreamsGroup, key: Message, value: Message) -> None:
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


def _take_away(group: StreamsGroup, key: Message) -> None:
    match key:
        case wire.StreamsGroupMemberMetadataKey():
            group.replay_member_tombstone(key.member_id)
        case wire.StreamsGroupCurrentMemberAssignmentKey():
            group.replay_assignment_tombstone(key.member_id)
        case wire.StreamsGroupTargetAssignmentMemberKey():
            group.replay_target(key.member_id, None)
        case wire.StreamsGroupTargetAssignmentMetadataKey():
            group.replay_target_epoch(-1, 0)
        case _:
            group.replay_topology(None)
