"""StreamsGroupDescribe (89), version 0: streams groups with their epochs and topologies, and each
member's current and target tasks (KIP-1071). The response for a group of another type is
GROUP_ID_NOT_FOUND."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Final

from pk.core.api.groups.group_descriptions import GroupDescribe, failed_description
from pk.core.broker.requests.context import Context
from pk.core.group.any_group import GroupType
from pk.core.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    """Return the topics of the topology."""
    for part in group.topology.subtopologies or () if group.topology is not None else ():
        yield from part.source_topics
        for topic in (*part.repartition_source_topics, *part.state_changelog_topics):
            yield topic.name


_DESCRIBE: Final = GroupDescribe(
    GroupType.STREAMS, failed_description(DescribedGroup), StreamsGroupDescribeResponse, _topics_of
)


async def handle(
    context: Context, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse | Awaitable[StreamsGroupDescribeResponse]:
    """Describe each group, by its coordinator."""
    return await _DESCRIBE.answer(context, request)


error_response = _DESCRIBE.error_response
"""Returns the response with the same error for every group."""
