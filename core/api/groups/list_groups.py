"""ListGroups (16), versions 0–5: the groups that this broker coordinates, by state (KIP-518, v4)
and type (KIP-848, v5)."""

from __future__ import annotations

from collections.abc import Awaitable
from itertools import chain
from typing import Any

from pk.core.api.authorization import allows, allows_cluster, is_on
from pk.core.api.registry import Outcome
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.coordinator.coordinator_shard import gather_replies
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.group.machine import normalized
from pk.core.wire.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)


async def handle(
    context: Context, request: ListGroupsRequest
) -> ListGroupsResponse | Awaitable[Outcome[ListGroupsResponse]]:
    """List the groups of every coordinator. The error is COORDINATOR_LOAD_IN_PROGRESS if one has
    not loaded its groups yet."""
    coordinators = context.broker.groups.coordinators
    coordinators.check_loaded()
    states = normalized(request.states_filter)
    types = normalized(request.types_filter)
    answers = [
        coordinator.submit_nowait(
            lambda machine, _, now_ms: machine.list_groups(states, types, now_ms)
        )
        for coordinator in coordinators
        if coordinator.is_active
    ]
    ready = [answer for answer in answers if isinstance(answer, list)]
    if len(ready) == len(answers):
        visible = await _visible(context, list(chain.from_iterable(ready)))
        return ListGroupsResponse(groups=visible)
    return _wait(context, answers)


async def _visible(context: Context, groups: list[ListedGroup]) -> list[ListedGroup]:
    """Return the groups that the client may describe."""
    if not is_on(context) or allows_cluster(context, Operation.DESCRIBE, log=False):
        return groups
    visible: list[ListedGroup] = []
    for group in groups:
        if allows(context, Operation.DESCRIBE, ResourceType.GROUP, group.group_id, log=False):
            visible.append(group)
        await let_others_run()
    return visible


async def _wait(context: Context, answers: list[Any]) -> ListGroupsResponse:
    groups = list(chain.from_iterable(await gather_replies(answers)))
    groups = await _visible(context, groups)
    return ListGroupsResponse(groups=groups)
