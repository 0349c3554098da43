"""Clients that come while a node starts."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from nodes import caller_of, config_of, trio_test

from pk.core.broker.controller.broker_lifecycle import BrokerLifecycle
from pk.core.log.memory_disk import MemoryDisk
from pk.core.wire.messages.metadata import MetadataRequest
from pk.net.node import Node

ROLES = {
    "process__roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller__listener__names": "CONTROLLER",
}
"""The roles of `pk up`: other brokers could join, so this one is fenced at first."""


@trio_test
async def test_a_client_that_comes_before_the_broker_is_unfenced_is_answered_afterwards() -> None:
    """The image knows no broker that is alive until then. librdkafka would take an answer without
    brokers and controller as it is, and look again minutes later."""
    begun, may_go_on = trio.Event(), trio.Event()
    serve = BrokerLifecycle.serve

    async def held(self: BrokerLifecycle) -> None:
        begun.set()
        await may_go_on.wait()
        await serve(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BrokerLifecycle, "serve", held)
        node, ready = Node(config_of(**ROLES), disk=MemoryDisk()), trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.run, lambda _: ready.set())
            await begun.wait()
            async with caller_of(node) as caller:
                await caller.send(MetadataRequest(topics=[]), 12)
                await trio.testing.wait_all_tasks_blocked(0.05)  # or it is answered here
                may_go_on.set()
                answer = await caller.receive(MetadataRequest.API_KEY, 12)
            assert [broker.node_id for broker in answer.brokers] == [1]
            assert answer.controller_id == 1
            await ready.wait()
            node.stop()
