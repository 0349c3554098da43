"""Polling until a condition holds."""

import trio
from trio.testing import MockClock

from pk.cli.runtime.poll import poll_until


def test_it_asks_until_it_holds() -> None:
    asked: list[float] = []

    async def shown() -> bool:
        asked.append(trio.current_time())
        return len(asked) == 3

    async def run() -> None:
        began = trio.current_time()
        assert await poll_until(shown, every_s=2, within_s=10)
        assert [at - began for at in asked] == [0, 2, 4]

    trio.run(run, clock=MockClock(autojump_threshold=0))


def test_its_pauses_grow() -> None:
    asked: list[float] = []

    async def shown() -> bool:
        asked.append(trio.current_time())
        return len(asked) == 5

    async def run() -> None:
        began = trio.current_time()
        assert await poll_until(shown, every_s=2, most_s=4)
        assert [at - began for at in asked] == [0, 2, 5, 9, 13]

    trio.run(run, clock=MockClock(autojump_threshold=0))


def test_without_time_it_asks_once_and_waits_for_the_answer() -> None:
    asked = 0

    async def slow(holds: bool) -> bool:
        nonlocal asked
        asked += 1
        await trio.sleep(60)
        return holds

    async def run() -> None:
        for holds in (True, False):
            assert await poll_until(lambda h=holds: slow(h), every_s=1, within_s=0) is holds

    trio.run(run, clock=MockClock(autojump_threshold=0))
    assert asked == 2


def test_it_gives_up_when_the_time_is_over() -> None:
    async def never() -> bool:
        return False

    async def hangs() -> bool:
        await trio.sleep_forever()
        return True

    async def run() -> None:
        for ask in (never, hangs):
            began = trio.current_time()
            assert not await poll_until(ask, every_s=3, within_s=10)
            assert trio.current_time() - began == 10

    trio.run(run, clock=MockClock(autojump_threshold=0))
