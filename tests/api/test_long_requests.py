"""A request that names thousands of things lets others have the loop meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from nodes import caller_of, running_node, trio_test

from pk.core.api import describe_configs, list_offsets, offset_for_leader_epoch
from pk.core.api.long_requests import AT_ONCE
from pk.core.broker.requests.context import Context
from pk.core.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pk.core.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

NAMES = [f"t{i}" for i in range(8 * AT_ONCE)]
REQUESTS: list[tuple[Callable[..., Any], Any, int]] = [
    (
        list_offsets.handle,
        ListOffsetsRequest(
            topics=[ListOffsetsTopic(name=n, partitions=[ListOffsetsPartition()]) for n in NAMES]
        ),
        7,
    ),
    (
        offset_for_leader_epoch.handle,
        OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(topic=n, partitions=[OffsetForLeaderPartition()])
                for n in NAMES
            ]
        ),
        4,
    ),
    (
        describe_configs.handle,
        DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=2, resource_name=n) for n in NAMES]
        ),
        4,
    ),
]


@pytest.mark.parametrize(
    ("handle", "request_", "version"), REQUESTS, ids=lambda v: type(v).__name__
)
def test_others_get_their_turn(handle: Callable[..., Any], request_: Any, version: int) -> None:
    @trio_test
    async def run() -> None:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async with running_node() as node, caller_of(node), trio.open_nursery() as nursery:
            nursery.start_soon(other)
            context = Context(node.broker, type(request_).API_KEY, version)
            answer = await handle(context, request_)
            nursery.cancel_scope.cancel()
        assert turns >= 4, "one for each `AT_ONCE`, but the first and the last"
        assert len(getattr(answer, "topics", None) or answer.results) == len(NAMES)

    run()
