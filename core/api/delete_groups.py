"""DeleteGroups (42), versions 0–2: forget groups without members, and their offsets (KIP-229)."""

from __future__ import annotations

from typing import Any

from pk.core.api.registry import Answer, Api
from pk.core.broker.coordinator.coordinator import all_of
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(context: Context, request: DeleteGroupsRequest) -> Answer[DeleteGroupsResponse]:
    """Ask the coordinator of every group."""
    answers = [_delete(context, group_id) for group_id in dict.fromkeys(request.groups_names)]
    if all(isinstance(a, list) for a in answers):
        return DeleteGroupsResponse(results=[result for results in answers for result in results])
    return _wait(answers)


async def _wait(answers: list[Any]) -> DeleteGroupsResponse:
    results = [result for results in await all_of(answers) for result in results]
    return DeleteGroupsResponse(results=results)


def _delete(context: Context, group_id: str) -> Any:
    """A list of one result, or an awaitable of it; an error is the group's own."""
    try:
        answer = context.broker.coordinators.submit(
            group_id, lambda machine, _, now_ms: machine.delete_groups([group_id], now_ms)
        )
    except KafkaError as e:
        return [_failed(group_id, e)]
    return answer if isinstance(answer, list) else _delete_later(group_id, answer)


async def _delete_later(group_id: str, answer: Any) -> list[DeletableGroupResult]:
    try:
        return await answer
    except KafkaError as e:
        return [_failed(group_id, e)]


def _failed(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=error.code)


def _error_response(
    request: DeleteGroupsRequest, error: KafkaError, version: int
) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[_failed(g, error) for g in request.groups_names])


API = Api(
    key=42,
    versions=(0, 2),
    handle=handle,
    error_response=_error_response,
    parks=True,
)
