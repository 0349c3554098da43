"""Changes of the registry whose outcome is late: no id is given twice, and nothing spins."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from nodes import running_node, trio_test

from pk.core.schemas.registry.decisions import Decider, Decision
from pk.core.schemas.registry.errors import RegistryError
from pk.core.schemas.schema import Schema
from pk.net.client.consumer import Consumer
from pk.net.client.producer import Producer
from pk.net.client.subscription import ConsumerRecord
from pk.net.schemas import registry as module
from pk.net.schemas.election import Identity
from pk.net.schemas.registry import Registry, Settings


@asynccontextmanager
async def running() -> AsyncIterator[Registry]:
    """A registry beside a broker of its own."""
    async with running_node() as node:
        address = node.listeners[0].advertised
        settings = Settings(f"{address.host}:{address.port}", replication_factor=1)
        registry = Registry(settings, Identity("127.0.0.1", 1))
        async with trio.open_nursery() as nursery:
            await nursery.start(registry.run)
            yield registry
            nursery.cancel_scope.cancel()


async def register(
    registry: Registry, subject: str, kind: str, decided: trio.Event | None = None
) -> int:
    """Registers a schema of one word; its id. `decided` is set once its id is."""

    def decide(decider: Decider) -> Decision:
        decision = decider.register(subject, Schema(f'"{kind}"'))
        if decided is not None:
            trio.from_thread.run_sync(decided.set)
        return decision

    reply, _ = await registry.change(decide)
    return reply.id


@trio_test
async def test_a_change_that_timed_out_in_the_log_keeps_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lags, goes_on = trio.Event(), trio.Event()
    poll = Consumer.poll

    async def late(self: Consumer, **more: Any) -> list[ConsumerRecord]:
        found = await poll(self, **more)
        if lags.is_set():
            await goes_on.wait()
        return found

    monkeypatch.setattr(Consumer, "poll", late)
    with trio.fail_after(120):
        async with running() as registry:
            assert await register(registry, "first", "int") == 1
            lags.set()
            monkeypatch.setattr(module, "WRITE_TIMEOUT_S", 3)
            with pytest.raises(RegistryError, match="timed out"):
                await register(registry, "late", "string")
            monkeypatch.setattr(module, "WRITE_TIMEOUT_S", 60)
            decided, ids = trio.Event(), list[int]()

            async def change() -> None:
                ids.append(await register(registry, "next", "long", decided))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(change)
                with trio.move_on_after(1):
                    await decided.wait()
                goes_on.set()
            assert ids == [3]


@trio_test
async def test_changes_wait_without_work_while_a_leader_that_stepped_down_closes_its_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closing, goes_on = trio.Event(), trio.Event()
    flush, next_change = Producer.flush, Registry._next_change
    waits = 0

    async def late(self: Producer) -> None:
        closing.set()
        await goes_on.wait()
        await flush(self)

    async def counted(self: Registry) -> None:
        nonlocal waits
        waits += 1
        await next_change(self)

    with trio.fail_after(120):
        async with running() as registry, trio.open_nursery() as nursery:
            assert await register(registry, "first", "int") == 1
            monkeypatch.setattr(Producer, "flush", late)
            monkeypatch.setattr(Registry, "_next_change", counted)
            assert registry._election is not None
            registry._election.step_down()
            await closing.wait()
            nursery.start_soon(register, registry, "next", "long")
            for _ in range(500):
                await trio.lowlevel.checkpoint()
            assert waits < 50
            goes_on.set()
