"""The response to ShareGroupDescribe for a group."""

from __future__ import annotations

from pk.core.group.share.group import ShareGroup
from pk.core.group.share.member import ShareMember
from pk.core.group.topics import Topics
from pk.core.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)


def describe(group: ShareGroup, topics: Topics, assignor_name: str) -> DescribedGroup:
    """Describe a group."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor_name,
        members=[_member(member, topics) for member in group.members.values()],
    )


def _member(member: ShareMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions))
                for topic_id, partitions in member.assigned.items()
                if (name := topics.name(topic_id)) is not None
            ]
        ),
    )
