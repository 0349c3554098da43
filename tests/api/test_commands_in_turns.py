"""A request that names many groups sends a command for each to its coordinator: fewer of them in a
turn than elements elsewhere."""

from typing import Any

import pytest
from nodes import running_node, trio_test

from pk.core.api.groups import delete_groups, offset_fetch
from pk.core.broker.coordinator.group_coordinators import GroupCoordinators
from pk.core.broker.requests.context import Context
from pk.core.turns import AT_ONCE, COMMAND, Turns
from pk.core.wire.messages.delete_groups import DeleteGroupsRequest
from pk.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)

GROUPS = [f"group-{number}" for number in range(4 * AT_ONCE)]


def delete(context: Context) -> Turns[Any]:
    return delete_groups._delete_all(context, DeleteGroupsRequest(groups_names=GROUPS))


def fetch(context: Context) -> Turns[Any]:
    groups = [OffsetFetchRequestGroup(group_id=group, topics=[]) for group in GROUPS]
    return offset_fetch._handle(context, OffsetFetchRequest(groups=groups))


@pytest.mark.parametrize("what", ["DeleteGroups", "OffsetFetch"])
def test_so_many_commands_go_into_a_turn(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted = 0

    def submit(self: GroupCoordinators, group_id: str, command: Any) -> Any:
        nonlocal submitted
        submitted += 1
        return [] if what == "DeleteGroups" else OffsetFetchResponseGroup(group_id=group_id)

    @trio_test
    async def run() -> None:
        async with running_node() as node:
            monkeypatch.setattr(GroupCoordinators, "submit", submit)
            if what == "DeleteGroups":
                work = delete(Context(node.broker, 42, 2, client_id=""))
            else:
                work = fetch(Context(node.broker, 9, 8, client_id=""))
            for turn in range(1, len(GROUPS) * COMMAND // AT_ONCE + 1):
                next(work)
                assert submitted == turn * AT_ONCE // COMMAND

    run()
