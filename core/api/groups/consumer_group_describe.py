"""ConsumerGroupDescribe (69), versions 0–1: consumer groups with their epochs, and of each member
what it reads, holds and is to have (KIP-848).

KIP-1099 (v1: which protocol a member speaks). Groups of other types are GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pk.core.api.groups.group_descriptions import describe_each
from pk.core.api.registry import Answer
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(
    context: Context, request: ConsumerGroupDescribeRequest
) -> Answer[ConsumerGroupDescribeResponse]:
    """Ask the coordinator of every group."""
    coordinators = context.broker.coordinators
    coordinators.check_consumer_protocol()

    def describe(group_id: str) -> Any:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return coordinators.submit(
            group_id,
            lambda machine, _, now_ms: machine.describe_consumer_groups([group_id], now_ms),
        )

    return describe_each(
        context,
        request.group_ids,
        describe,
        _failed,
        lambda groups: ConsumerGroupDescribeResponse(groups=groups),
        with_operations=request.include_authorized_operations,
        topics_of=_topics_of,
    )


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    """The topics that members hold, or are to have."""
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                yield topic.topic_name


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id, error_code=error.code, error_message=error.message or None
    )


def error_response(
    request: ConsumerGroupDescribeRequest, error: KafkaError, version: int
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[_failed(g, error) for g in request.group_ids])
