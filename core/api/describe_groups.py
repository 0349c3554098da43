"""DescribeGroups (15), versions 0–6: a group's state, protocol and members, with what each said and was assigned.

KIP-430 (v3: authorized operations), KIP-345 (v4: static members), KIP-1043 (v6: GROUP_ID_NOT_FOUND; before it, a group that
does not exist is one that is Dead).
"""

from __future__ import annotations

from typing import Any, Final

from pk.core.api.authorized import GROUP_OPERATIONS
from pk.core.api.registry import Answer, Api
from pk.core.broker.coordinator.coordinator import all_of
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

OPERATIONS_SINCE: Final = 3
MESSAGE_SINCE: Final = 6


def handle(context: Context, request: DescribeGroupsRequest) -> Answer[DescribeGroupsResponse]:
    """Ask the coordinator of every group."""
    answers = [_describe(context, group_id) for group_id in request.groups]
    if all(isinstance(a, list) for a in answers):
        return _response(context, request, answers)
    return _wait(context, request, answers)


async def _wait(
    context: Context, request: DescribeGroupsRequest, answers: list[Any]
) -> DescribeGroupsResponse:
    return _response(context, request, await all_of(answers))


def _describe(context: Context, group_id: str) -> Any:
    """A list of one description, or an awaitable of it; an error is the group's own."""
    version = context.api_version
    try:
        answer = context.broker.coordinators.submit(
            group_id,
            lambda machine, _, now_ms: machine.describe_groups([group_id], version, now_ms),
        )
    except KafkaError as e:
        return [_failed(group_id, e, version)]
    return answer if isinstance(answer, list) else _describe_later(group_id, answer, version)


async def _describe_later(group_id: str, answer: Any, version: int) -> list[DescribedGroup]:
    try:
        return await answer
    except KafkaError as e:
        return [_failed(group_id, e, version)]


def _failed(group_id: str, error: KafkaError, version: int) -> DescribedGroup:
    message = error.message if version >= MESSAGE_SINCE else None
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=message)


def _response(
    context: Context, request: DescribeGroupsRequest, answers: list[list[DescribedGroup]]
) -> DescribeGroupsResponse:
    groups = [group for groups in answers for group in groups]
    if request.include_authorized_operations and context.api_version >= OPERATIONS_SINCE:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


def _error_response(
    request: DescribeGroupsRequest, error: KafkaError, version: int
) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[_failed(g, error, version) for g in request.groups])


API = Api(
    key=15,
    versions=(0, 6),
    handle=handle,
    error_response=_error_response,
    parks=True,
)
