"""DeleteGroups (42), versions 0–2: deletes groups without members, and their offsets (KIP-229)."""

from __future__ import annotations

from collections.abc import Awaitable

from pk.core.api.authorization import allows, refusal
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.coordinator.coordinator_shard import gather_replies
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
    """Delete each group, by its coordinator."""
    answers: list[DeletableGroupResult | Awaitable[DeletableGroupResult]] = []
    for group_id in dict.fromkeys(request.groups_names):
        answers.append(_delete(context, group_id))
        await let_others_run()
    ready = [answer for answer in answers if not isinstance(answer, Awaitable)]
    return DeleteGroupsResponse(results=ready) if len(ready) == len(answers) else _wait(answers)


async def _wait(
    answers: list[DeletableGroupResult | Awaitable[DeletableGroupResult]],
) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=await gather_replies(answers))


def _delete(
    context: Context, group_id: str
) -> DeletableGroupResult | Awaitable[DeletableGroupResult]:
    """Return the result for one group, including its error."""
    coordinators = context.broker.groups.coordinators
    if not allows(context, Operation.DELETE, ResourceType.GROUP, group_id):
        return _failed(group_id, refusal(ResourceType.GROUP))
    if coordinators.has_share_group(group_id):
        return _result(group_id, _delete_share_group(context, group_id))
    try:
        answer: DeletableGroupResult | Awaitable[DeletableGroupResult]
        answer = coordinators.submit_nowait(
            group_id, lambda machine, _, now_ms: machine.delete_group(group_id, now_ms)
        )
    except KafkaError as e:
        return _failed(group_id, e)
    return _result(group_id, answer) if isinstance(answer, Awaitable) else answer


async def _delete_share_group(context: Context, group_id: str) -> DeletableGroupResult:
    """Delete a share group, after the state of its share partitions."""
    await context.broker.groups.share_offsets.delete_group(group_id)
    return await context.broker.groups.coordinators.submit(
        group_id, lambda machine, _, now_ms: machine.delete_group(group_id, now_ms)
    )


async def _result(group_id: str, answer: Awaitable[DeletableGroupResult]) -> DeletableGroupResult:
    try:
        return await answer
    except KafkaError as e:
        return _failed(group_id, e)


def _failed(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=error.code)


def error_response(
    request: DeleteGroupsRequest, error: KafkaError, version: int
) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[_failed(g, error) for g in request.groups_names])
