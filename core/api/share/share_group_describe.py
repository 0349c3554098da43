"""ShareGroupDescribe (77), version 1: share groups with their epochs, and each member's
subscription and assignment (KIP-932). The response for a group of another type is
GROUP_ID_NOT_FOUND."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Final

from pk.core.api.groups.group_descriptions import GroupDescribe, failed_description
from pk.core.broker.requests.context import Context
from pk.core.group.any_group import GroupType
from pk.core.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    """Return the topics assigned to members."""
    for member in group.members:
        for topic in member.assignment.topic_partitions:
            yield topic.topic_name


_DESCRIBE: Final = GroupDescribe(
    GroupType.SHARE, failed_description(DescribedGroup), ShareGroupDescribeResponse, _topics_of
)


async def handle(
    context: Context, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse | Awaitable[ShareGroupDescribeResponse]:
    """Describe each group, by its coordinator."""
    return await _DESCRIBE.answer(context, request)


error_response = _DESCRIBE.error_response
"""Returns the response with the same error for every group."""
