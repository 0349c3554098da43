"""The records of share groups in `__consumer_offsets`, as Kafka 4.3.1 writes them.

A member is deleted by tombstones in this order: its assignment, its target, the member. A group is
deleted by the tombstone of its epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from pk.core.group.assignor import Assignment
from pk.core.group.records import Record
from pk.core.group.share.member import STABLE, ShareMember
from pk.core.values import Uuid
from pk.core.wire.messages import offsets_topic_share as wire


class SharedTopic(NamedTuple):
    """A topic's share partitions, and its name."""

    name: str
    partitions: frozenset[int]


class StatePartitions(NamedTuple):
    """The states of a group's share partitions, by topic id."""

    initializing: Mapping[Uuid, SharedTopic] = {}
    """Share partitions that the share coordinator is going to initialize."""
    initialized: Mapping[Uuid, SharedTopic] = {}
    """Share partitions that may be assigned."""
    deleting: Mapping[Uuid, str] = {}
    """Names of topics whose share partitions the share coordinator is going to delete."""

    def without(self, topic_ids: Collection[Uuid]) -> StatePartitions:
        """Return the states without these topics."""
        return StatePartitions(
            {t: found for t, found in self.initializing.items() if t not in topic_ids},
            {t: found for t, found in self.initialized.items() if t not in topic_ids},
            {t: name for t, name in self.deleting.items() if t not in topic_ids},
        )


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """The record of a new group epoch, which requires a new target assignment."""
    return Record(
        wire.ShareGroupMetadataKey(group_id=group_id),
        wire.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_metadata(group_id: str, member: ShareMember) -> Record:
    """The record of the metadata that a member reports."""
    return Record(
        wire.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        wire.ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
        ),
    )


def current_assignment(group_id: str, member: ShareMember) -> Record:
    """The record of a member's epoch and the partitions that it may read."""
    return Record(
        wire.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        wire.ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_epoch,
            state=STABLE,
            assigned_partitions=[
                wire.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in member.assigned.items()
            ],
        ),
    )


def target_member(group_id: str, member_id: str, assignment: Assignment) -> Record:
    """The record of a member's target assignment."""
    return Record(
        wire.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        wire.ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[
                wire.TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in assignment.items()
            ]
        ),
    )


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The record that completes the target assignment of `epoch`."""
    return Record(
        wire.ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        wire.ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        ),
    )


def state_partitions(group_id: str, state: StatePartitions) -> Record:
    """The record of the states of the group's share partitions."""

    def infos(topics: Mapping[Uuid, SharedTopic]) -> list[wire.TopicPartitionsInfo]:
        return [
            wire.TopicPartitionsInfo(
                topic_id=topic_id, topic_name=found.name, partitions=sorted(found.partitions)
            )
            for topic_id, found in topics.items()
        ]

    return Record(
        wire.ShareGroupStatePartitionMetadataKey(group_id=group_id),
        wire.ShareGroupStatePartitionMetadataValue(
            initializing_topics=infos(state.initializing),
            initialized_topics=infos(state.initialized),
            deleting_topics=[
                wire.TopicInfo(topic_id=topic_id, topic_name=name)
                for topic_id, name in state.deleting.items()
            ],
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """The records that delete a member."""
    names = {"group_id": group_id, "member_id": member_id}
    return [
        Record(wire.ShareGroupCurrentMemberAssignmentKey(**names), None),
        Record(wire.ShareGroupTargetAssignmentMemberKey(**names), None),
        Record(wire.ShareGroupMemberMetadataKey(**names), None),
    ]


def group_tombstones(group_id: str) -> list[Record]:
    """The records that delete a group without members."""
    return [
        Record(wire.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        Record(wire.ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        Record(wire.ShareGroupMetadataKey(group_id=group_id), None),
    ]
