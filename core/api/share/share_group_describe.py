"""ShareGroupDescribe (77), version 1: share groups with their epochs, and of each member what it
reads and may fetch from (KIP-932). Groups of other types are GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pk.core.api.groups.group_descriptions import describe_each
from pk.core.api.registry import Answer
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def handle(
    context: Context, request: ShareGroupDescribeRequest
) -> Answer[ShareGroupDescribeResponse]:
    """Ask the coordinator of every group."""
    coordinators = context.broker.coordinators
    coordinators.check_share_protocol()

    def describe(group_id: str) -> Any:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return coordinators.submit(
            group_id, lambda machine, _, now_ms: machine.describe_share_groups([group_id], now_ms)
        )

    return describe_each(
        context,
        request.group_ids,
        describe,
        _failed,
        lambda groups: ShareGroupDescribeResponse(groups=groups),
        with_operations=request.include_authorized_operations,
        topics_of=_topics_of,
    )


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    """The topics that members may fetch from."""
    for member in group.members:
        for topic in member.assignment.topic_partitions:
            yield topic.topic_name


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id, error_code=error.code, error_message=error.message or None
    )


def error_response(
    request: ShareGroupDescribeRequest, error: KafkaError, version: int
) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(groups=[_failed(g, error) for g in request.group_ids])
