"""The records of consumer groups in `__consumer_offsets`, as Kafka 4.3.1 writes them.

A member is deleted by tombstones in this order: its assignment, its target, the member. A group is
deleted by the tombstone of its epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pk.core.group.assignor import Assignment
from pk.core.group.consumer.member import ClassicMember, ConsumerMember, Current, MemberState
from pk.core.group.records import Record
from pk.core.wire.messages import offsets_topic as wire


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """The record of a new group epoch, which requires a new target assignment."""
    return Record(
        wire.ConsumerGroupMetadataKey(group_id=group_id),
        wire.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_metadata(group_id: str, member: ConsumerMember) -> Record:
    """The record of the metadata that a member reports."""
    classic = member.classic
    return Record(
        wire.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        wire.ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
            subscribed_topic_regex=member.regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.assignor,
            classic_member_metadata=None
            if classic is None
            else wire.ClassicMemberMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[
                    wire.ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in classic.protocols
                ],
            ),
        ),
    )


def current_assignment(group_id: str, member: ConsumerMember) -> Record:
    """The record of a member's epoch and the partitions that it holds."""
    return Record(
        wire.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        wire.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=_current(member.assigned),
            partitions_pending_revocation=_current(member.revoking),
        ),
    )


def target_member(group_id: str, member_id: str, assignment: Assignment) -> Record:
    """The record of a member's target assignment."""
    return Record(
        wire.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        wire.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                wire.TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in assignment.items()
            ]
        ),
    )


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The record that completes the target assignment of `epoch`."""
    return Record(
        wire.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        wire.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        ),
    )


def resolved_regex(
    group_id: str, regex: str, topics: Iterable[str], version: int, timestamp_ms: int
) -> Record:
    """The record of the topics that an expression matches, in the metadata image of offset
    `version`."""
    return Record(
        wire.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        wire.ConsumerGroupRegularExpressionValue(
            topics=sorted(topics), version=version, timestamp=timestamp_ms
        ),
    )


def regex_tombstone(group_id: str, regex: str) -> Record:
    """The tombstone of an expression that no member has anymore."""
    key = wire.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return Record(key, None)


def partition_metadata_tombstone(group_id: str) -> Record:
    """The tombstone of the record that brokers before 4.1 wrote in place of the hash."""
    return Record(wire.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """The records that delete a member."""
    names = {"group_id": group_id, "member_id": member_id}
    return [
        Record(wire.ConsumerGroupCurrentMemberAssignmentKey(**names), None),
        Record(wire.ConsumerGroupTargetAssignmentMemberKey(**names), None),
        Record(wire.ConsumerGroupMemberMetadataKey(**names), None),
    ]


def group_tombstones(
    group_id: str, member_ids: Collection[str], regexes: Iterable[str]
) -> list[Record]:
    """The records that delete a group and its members."""
    own = {"group_id": group_id}
    by_member = [{"group_id": group_id, "member_id": m} for m in member_ids]
    return [
        *(Record(wire.ConsumerGroupCurrentMemberAssignmentKey(**n), None) for n in by_member),
        *(Record(wire.ConsumerGroupTargetAssignmentMemberKey(**n), None) for n in by_member),
        Record(wire.ConsumerGroupTargetAssignmentMetadataKey(**own), None),
        *(Record(wire.ConsumerGroupMemberMetadataKey(**n), None) for n in by_member),
        *(regex_tombstone(group_id, regex) for regex in regexes),
        partition_metadata_tombstone(group_id),
        Record(wire.ConsumerGroupMetadataKey(**own), None),
    ]


def with_metadata(value: wire.ConsumerGroupMemberMetadataValue) -> dict[str, object]:
    """Return the fields of a member that its metadata record sets."""
    classic = value.classic_member_metadata
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "topics": frozenset(value.subscribed_topic_names),
        "regex": value.subscribed_topic_regex or "",
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "assignor": value.server_assignor,
        "classic": None
        if classic is None
        else ClassicMember(
            classic.session_timeout_ms,
            tuple((p.name, p.metadata) for p in classic.supported_protocols),
        ),
    }


def with_assignment(
    value: wire.ConsumerGroupCurrentMemberAssignmentValue,
) -> dict[str, object]:
    """Return the fields of a member that the record of its assignment sets."""
    epoch = value.member_epoch
    return {
        "member_epoch": epoch,
        "previous_epoch": value.previous_member_epoch,
        "state": MemberState.of(value.state),
        "assigned": _held(value.assigned_partitions, epoch),
        "revoking": _held(value.partitions_pending_revocation, epoch),
    }


def _current(held: Current) -> list[wire.TopicPartitions]:
    return [
        wire.TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[p] for p in sorted(partitions)],
        )
        for topic_id, partitions in held.items()
    ]


def _held(topics: list[wire.TopicPartitions], member_epoch: int) -> Current:
    """Return partitions with their epochs. Records of brokers before 4.3 have none; the member's
    epoch stands in."""
    held: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        held[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return held
