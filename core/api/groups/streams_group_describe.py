"""StreamsGroupDescribe (89), version 0: streams groups with their epochs and topologies, and of
each member the tasks that it has and is to have (KIP-1071). Groups of other types are
GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pk.core.api.groups.group_descriptions import describe_each
from pk.core.api.registry import Answer
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


def handle(
    context: Context, request: StreamsGroupDescribeRequest
) -> Answer[StreamsGroupDescribeResponse]:
    """Ask the coordinator of every group."""
    coordinators = context.broker.coordinators
    coordinators.check_streams_protocol()

    def describe(group_id: str) -> Any:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return coordinators.submit(
            group_id, lambda machine, _, now_ms: machine.describe_streams_groups([group_id], now_ms)
        )

    return describe_each(
        context,
        request.group_ids,
        describe,
        _failed,
        lambda groups: StreamsGroupDescribeResponse(groups=groups),
        with_operations=request.include_authorized_operations,
        topics_of=_topics_of,
    )


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    """The topics of the topology."""
    for part in group.topology.subtopologies or () if group.topology is not None else ():
        yield from part.source_topics
        for topic in (*part.repartition_source_topics, *part.state_changelog_topics):
            yield topic.name


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id, error_code=error.code, error_message=error.message or None
    )


def error_response(
    request: StreamsGroupDescribeRequest, error: KafkaError, version: int
) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(groups=[_failed(g, error) for g in request.group_ids])
