"""ConsumerGroupDescribe (69), versions 0–1: consumer groups with their epochs, and each member's
subscription, current and target assignment (KIP-848).

KIP-1099 (v1: the protocol that a member uses). The response for a group of another type is
GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Final

from pk.core.api.groups.group_descriptions import GroupDescribe, failed_description
from pk.core.broker.requests.context import Context
from pk.core.group.any_group import GroupType
from pk.core.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    """Return the topics of the members' current and target assignments."""
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                yield topic.topic_name


_DESCRIBE: Final = GroupDescribe(
    GroupType.CONSUMER,
    failed_description(DescribedGroup),
    ConsumerGroupDescribeResponse,
    _topics_of,
)


async def handle(
    context: Context, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    """Describe each group, by its coordinator."""
    return await _DESCRIBE.answer(context, request)


error_response = _DESCRIBE.error_response
"""Returns the response with the same error for every group."""
