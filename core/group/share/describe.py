"""What ShareGroupDescribe says of a group."""

from __future__ import annotations

from pk.core.errors import ErrorCode
from pk.core.group.any_group import AnyGroup
from pk.core.group.consumer.target import Topics
from pk.core.group.registry import is_share
from pk.core.group.share.member import ShareMember
from pk.core.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)


def describe(
    group_id: str, group: AnyGroup | None, topics: Topics, assignor_name: str
) -> DescribedGroup:
    """The group; GROUP_ID_NOT_FOUND for one that is missing or of another type."""
    if not is_share(group):
        missing = group is None
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} not found."
            if missing
            else f"Group {group_id} is not a share group.",
        )
    return DescribedGroup(
        group_id=group_id,
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
