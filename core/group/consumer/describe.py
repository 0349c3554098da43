"""The response to ConsumerGroupDescribe for a group."""

from __future__ import annotations

from typing import Final

from pk.core.group.assignor import Assignment
from pk.core.group.consumer.group import ConsumerGroup
from pk.core.group.consumer.member import ConsumerMember, Current
from pk.core.group.topics import Topics
from pk.core.values import Uuid
from pk.core.wire.messages.consumer_group_describe import Assignment as WireAssignment
from pk.core.wire.messages.consumer_group_describe import (
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def describe(group: ConsumerGroup, topics: Topics, default_assignor: str) -> DescribedGroup:
    """Describe a group."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(default_assignor),
        members=[_member(group, member, topics) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_named(_all_held(member.assigned, member.revoking), topics),
        target_assignment=_named(group.target_of(member), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _all_held(*held: Current) -> Assignment:
    """Return all partitions that a member holds, including those that it must give up."""
    together: dict[Uuid, set[int]] = {}
    for each in held:
        for topic_id, partitions in each.items():
            together.setdefault(topic_id, set()).update(partitions)
    return {topic_id: frozenset(partitions) for topic_id, partitions in together.items()}


def _named(assignment: Assignment, topics: Topics) -> WireAssignment:
    return WireAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions))
            for topic_id, partitions in assignment.items()
            if (name := topics.name(topic_id)) is not None
        ]
    )
