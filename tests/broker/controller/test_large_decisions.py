"""Decisions that take long, made in threads: one after another all the same."""

import threading
from typing import Any

import pytest
import trio
from broker.controller.test_controller import allocate, running

from pk.core.broker.controller import controller as controller_module
from pk.core.broker.controller.active_controller import Decide, OffLoopDecision
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta.events import Event, PartitionCreated, TopicCreated
from pk.core.meta.image import MetadataImage


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_module, "LARGE_IMAGE", 0)


def make_topic(image: MetadataImage) -> Decision[Event, Any]:
    return Decision([TopicCreated("t", bytes(16)), PartitionCreated(bytes(16), 0, (1,), (1,), 1)])


def test_what_takes_long_is_decided_in_a_thread() -> None:
    seen: list[tuple[str, bool]] = []

    def note(what: str, then: Decide) -> Decide:
        seen.append((what, threading.current_thread() is threading.main_thread()))
        return then

    def ask() -> Decide:
        return note("asked", lambda image: note("decided", allocate)(image))

    def fail() -> Decide:
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    async def main() -> None:
        async with running() as one:
            await one.controller.submit(make_topic)
            with pytest.raises(KafkaError):
                await one.controller.submit(OffLoopDecision(fail))
            replies: list[int] = []

            async def submit(decide: Decide) -> None:
                replies.append(await one.controller.submit(decide))

            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(submit, OffLoopDecision(ask))
                    nursery.start_soon(submit, allocate)
            assert sorted(replies) == list(range(10)), "each on what was decided before it"
            assert set(seen) == {("asked", True), ("decided", False)}
            with trio.fail_after(60):
                while one.published[-1] is not one.controller.image:  # noqa: ASYNC110
                    await trio.sleep(0.001)
            assert await one.store.load() == one.controller.image

    trio.run(main)  # a thread looks idle to a clock that jumps


@pytest.mark.parametrize("how", ["cancelled", "deposed"])
def test_what_is_not_in_the_store_when_the_controller_stops_did_not_happen(how: str) -> None:
    """Neither the decision in progress nor those waiting behind it take effect."""
    errors: list[ErrorCode | int] = []

    async def main() -> None:
        async with trio.open_nursery() as outer, running() as one:

            def stop() -> None:
                if how == "cancelled":
                    one.stop()
                    return
                for lost in one.store.lost:
                    lost(one.controller.epoch, "another has the leadership")

            def decide(image: MetadataImage) -> Decision[Event, Any]:
                trio.from_thread.run_sync(stop)
                return allocate(image)

            async def ask() -> None:
                with pytest.raises(KafkaError) as refused:
                    await one.controller.submit(OffLoopDecision(lambda: decide))
                errors.append(refused.value.code)

            await one.controller.submit(make_topic)
            before = one.controller.image
            for _ in range(2):
                outer.start_soon(ask)
            await one.ended.wait()
        assert errors == [ErrorCode.NOT_CONTROLLER] * 2
        assert one.controller.image is before
        assert await one.store.load() == before

    trio.run(main)
