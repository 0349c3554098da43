"""ConsumerGroupDescribe (69), versions 0–1: consumer groups with their epochs, and of each member what
it reads, holds and is to have (KIP-848).

KIP-1099 (v1: which protocol a member speaks). Groups of other types are GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

from typing import Any

from pk.core.api.authorized import GROUP_OPERATIONS
from pk.core.api.registry import Answer, Api
from pk.core.broker.coordinator.coordinator import all_of
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
    context.broker.coordinators.check_consumer_protocol()
    answers = [_describe(context, group_id) for group_id in request.group_ids]
    if all(isinstance(a, list) for a in answers):
        return _response(request, answers)
    return _wait(request, answers)


async def _wait(
    request: ConsumerGroupDescribeRequest, answers: list[Any]
) -> ConsumerGroupDescribeResponse:
    return _response(request, await all_of(answers))


def _describe(context: Context, group_id: str) -> Any:
    """A list of one description, or an awaitable of it; an error is the group's own."""
    if not group_id:
        error = KafkaError(ErrorCode.INVALID_GROUP_ID)
        return [_failed(group_id, error)]
    try:
        answer = context.broker.coordinators.submit(
            group_id,
            lambda machine, _, now_ms: machine.describe_consumer_groups([group_id], now_ms),
        )
    except KafkaError as e:
        return [_failed(group_id, e)]
    return answer if isinstance(answer, list) else _describe_later(group_id, answer)


async def _describe_later(group_id: str, answer: Any) -> list[DescribedGroup]:
    try:
        return await answer
    except KafkaError as e:
        return [_failed(group_id, e)]


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id, error_code=error.code, error_message=error.message or None
    )


def _response(
    request: ConsumerGroupDescribeRequest, answers: list[list[DescribedGroup]]
) -> ConsumerGroupDescribeResponse:
    groups = [group for groups in answers for group in groups]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


def _error_response(
    request: ConsumerGroupDescribeRequest, error: KafkaError, version: int
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[_failed(g, error) for g in request.group_ids])


API = Api(
    key=69,
    versions=(0, 1),
    handle=handle,
    error_response=_error_response,
    parks=True,
)
