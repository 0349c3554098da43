"""A request that lists thousands of things is answered, and another client is served in the
meantime. (`scripts/bench --stalls` measures how long it waits.)"""

from __future__ import annotations

from typing import Any

import pytest
from large_requests import Names, kinds, large
from nodes import caller_of, make_topic, running_node, trio_test

from pk.core.config.views import STANDARD_AUTHORIZER
from pk.core.wire.messages.api_versions import ApiVersionsRequest
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.pk_unclean_recovery import PkUncleanRecoveryRequest

MANY = 300

_OF_AN_OPERATOR = frozenset({PkUncleanRecoveryRequest.API_KEY})
"""Requests that a person makes, about partitions that wait for one."""


@pytest.mark.parametrize("authorizer", ["", STANDARD_AUTHORIZER])
def test_each_is_answered(authorizer: str) -> None:
    """With an authorizer the client has no rights."""

    @trio_test
    async def run() -> None:
        keys: dict[str, Any] = {"authorizer__class__name": authorizer} if authorizer else {}
        async with (
            running_node(**keys) as node,
            caller_of(node) as caller,
            caller_of(node) as other,
        ):
            names = Names("t", bytes(range(16)), 16, "g")
            if not authorizer:
                names = Names("t", await make_topic(caller, "t", 16), 16, "g")
                for kind in (0, 1):
                    error, wish = 1, FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"])
                    while error:
                        error = (await caller.call(wish, 4)).coordinators[0].error_code
            for kind in kinds(_OF_AN_OPERATOR):
                one = large(*kind, MANY, names)
                await caller.send(one.request, one.version)
                await other.call(ApiVersionsRequest(), 0)
                assert await caller.receive(one.request.API_KEY, one.version), one.name

    run()
