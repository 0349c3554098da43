"""A member that leaves is gone at once: no heartbeat of its own brings it back, and none that was
under way does.

A member that comes back after it left has no task that polls for it. The others wait for its
partitions until its session ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from net_client.support import ScriptedBroker, scripted_broker, trio_test

from pk.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from pk.core.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from pk.core.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from pk.core.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from pk.net.client.consumer import Consumer, open_consumer
from pk.net.client.share_consumer import ShareConsumer, open_share_consumer

Member = Consumer | ShareConsumer
LEAVE_EPOCH = -1


class Group:
    """A coordinator that lets everybody in, and the epochs in the heartbeats that it got."""

    def __init__(self, *, interval_ms: int, hold_epoch: int) -> None:
        self.broker: ScriptedBroker | None = None
        self.epochs: list[int] = []
        self.interval_ms = interval_ms
        self.hold_epoch = hold_epoch
        """The first heartbeat with this epoch is not answered before `release`."""

        self.arrived = trio.Event()
        self.release = trio.Event()

    async def handle(self, request: Any, version: int) -> Any:
        assert self.broker is not None
        name = type(request).__name__
        if name == "FindCoordinatorRequest":
            here = {"node_id": 1, "host": "127.0.0.1", "port": self.broker.port}
            keys = [Coordinator(key=key, **here) for key in request.coordinator_keys]
            return FindCoordinatorResponse(coordinators=keys)
        if name == "MetadataRequest":
            node = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.broker.port)
            topic = MetadataResponseTopic(name="t", topic_id=bytes(15) + b"\1")
            return MetadataResponse(controller_id=1, brokers=[node], topics=[topic])
        assert isinstance(request, ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest)
        self.epochs.append(request.member_epoch)
        if request.member_epoch == self.hold_epoch and not self.arrived.is_set():
            self.arrived.set()
            await self.release.wait()
        kind = (
            ShareGroupHeartbeatResponse
            if isinstance(request, ShareGroupHeartbeatRequest)
            else ConsumerGroupHeartbeatResponse
        )
        epoch = max(request.member_epoch, 7) if request.member_epoch >= 0 else LEAVE_EPOCH
        return kind(
            member_id=request.member_id, member_epoch=epoch, heartbeat_interval_ms=self.interval_ms
        )


@asynccontextmanager
async def coordinator(*, interval_ms: int, hold_epoch: int) -> AsyncIterator[Group]:
    group = Group(interval_ms=interval_ms, hold_epoch=hold_epoch)
    async with scripted_broker(group.handle) as broker:
        group.broker = broker
        yield group
        await broker.wait_closed()


@asynccontextmanager
async def member(group: Group, kind: str) -> AsyncIterator[Member]:
    assert group.broker is not None
    if kind == "share":
        async with open_share_consumer(group.broker.address, {"group.id": "g"}) as share:
            share.subscribe(["t"])
            yield share
    else:
        config = {"group.id": "g", "group.protocol": "consumer"}
        async with open_consumer(group.broker.address, config) as consumer:
            consumer.subscribe(["t"])
            yield consumer


@pytest.mark.parametrize("how", ["close", "unsubscribe"])
@pytest.mark.parametrize("kind", ["consumer", "share"])
@trio_test
async def test_no_heartbeat_follows_the_one_that_leaves(kind: str, how: str) -> None:
    async with (
        coordinator(interval_ms=1, hold_epoch=LEAVE_EPOCH) as group,
        member(group, kind) as one,
        trio.open_nursery() as nursery,
    ):
        while 7 not in group.epochs:
            await one.poll(timeout_ms=10)
        nursery.start_soon(getattr(one, how))
        await group.arrived.wait()
        await trio.sleep(0.1)  # time for a hundred heartbeats; none may be sent
        group.release.set()
    assert group.epochs[group.epochs.index(LEAVE_EPOCH) :] == [LEAVE_EPOCH]


@pytest.mark.parametrize("how", ["close", "unsubscribe"])
@pytest.mark.parametrize("kind", ["consumer", "share"])
@trio_test
async def test_a_member_leaves_that_is_about_to_join(kind: str, how: str) -> None:
    async with (
        coordinator(interval_ms=1000, hold_epoch=0) as group,
        member(group, kind) as one,
        trio.open_nursery() as nursery,
    ):
        await group.arrived.wait()
        nursery.start_soon(getattr(one, how))
        await trio.testing.wait_all_tasks_blocked()
        group.release.set()
    assert group.epochs == [0, LEAVE_EPOCH]
