"""ListGroups (16), versions 0–5: the groups that this broker coordinates, by state (KIP-518, v4) and type (KIP-848, v5)."""

from __future__ import annotations

from typing import Any

from pk.core.api.registry import Answer, Api
from pk.core.broker.coordinator.coordinator import all_of
from pk.core.broker.requests.context import Context
from pk.core.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(context: Context, request: ListGroupsRequest) -> Answer[ListGroupsResponse]:
    """Ask every coordinator; COORDINATOR_LOAD_IN_PROGRESS where one does not know its groups yet."""
    coordinators = context.broker.coordinators
    coordinators.check_loaded()
    answers = [
        coordinator.submit(
            lambda machine, _, now_ms: machine.list_groups(
                request.states_filter, request.types_filter, now_ms
            )
        )
        for coordinator in coordinators
        if coordinator.is_active
    ]
    if all(isinstance(a, list) for a in answers):
        return ListGroupsResponse(groups=[group for groups in answers for group in groups])
    return _wait(answers)


async def _wait(answers: list[Any]) -> ListGroupsResponse:
    return ListGroupsResponse(
        groups=[group for groups in await all_of(answers) for group in groups]
    )


API = Api(key=16, versions=(0, 5), handle=handle, parks=True)
