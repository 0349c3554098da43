"""DeleteGroups (42), versions 0–2: deletes groups without members, and their offsets (KIP-229)."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable
from itertools import chain
from typing import Any

from pk.core.api.authorization import allows, refusal
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.coordinator.coordinator import all_of
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def handle(
    context: Context, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    """Ask the coordinator of each group."""
    answers: list[Any] = []
    at_hand = True
    for group_id in dict.fromkeys(request.groups_names):
        answer = _delete(context, group_id)
        answers.append(answer)
        at_hand = at_hand and isinstance(answer, list)
        await let_others_run()
    if at_hand:
        return DeleteGroupsResponse(results=list(chain.from_iterable(answers)))
    return _wait(answers)


async def _wait(answers: list[Any]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=list(chain.from_iterable(await all_of(answers))))


def _delete(context: Context, group_id: str) -> Any:
    """A list with one result, or an awaitable of it; errors are in the result."""
    coordinators = context.broker.coordinators
    if not allows(context, Operation.DELETE, ResourceType.GROUP, group_id):
        return [_failed(group_id, refusal(ResourceType.GROUP))]
    if coordinators.has_share_group(group_id):
        return _delete_share_group(context, group_id)
    try:
        answer = coordinators.submit(
            group_id, lambda machine, _, now_ms: machine.delete_groups([group_id], now_ms)
        )
    except KafkaError as e:
        return [_failed(group_id, e)]
    return _delete_later(group_id, answer) if isawaitable(answer) else answer


async def _delete_share_group(context: Context, group_id: str) -> list[DeletableGroupResult]:
    """Delete its share partitions first."""
    try:
        await context.broker.share_offsets.delete_group(group_id)
        answer = context.broker.coordinators.submit(
            group_id, lambda machine, _, now_ms: machine.delete_groups([group_id], now_ms)
        )
        return await answer if isawaitable(answer) else answer
    except KafkaError as e:
        return [_failed(group_id, e)]


async def _delete_later(group_id: str, answer: Any) -> list[DeletableGroupResult]:
    try:
        return await answer
    except KafkaError as e:
        return [_failed(group_id, e)]


def _failed(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=error.code)


def error_response(
    request: DeleteGroupsRequest, error: KafkaError, version: int
) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[_failed(g, error) for g in request.groups_names])
