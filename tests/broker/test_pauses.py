"""Long work on the loop: how much of it is under way at once."""

from __future__ import annotations

import pytest
import trio
from nodes import trio_test

from pk.core.broker.pauses import AT_WORK_MAX, finish_in_line
from pk.core.turns import Turns


@trio_test
async def test_a_few_are_under_way_at_once_and_the_others_wait_in_line() -> None:
    under_way = 0
    seen: set[int] = set()
    ended: list[int] = []

    def long(number: int) -> Turns[int]:
        nonlocal under_way
        yield
        under_way += 1
        for _ in range(5):
            seen.add(under_way)
            yield
        under_way -= 1
        return number

    async def run(number: int) -> None:
        assert await finish_in_line(long(number)) == number
        ended.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(5 * AT_WORK_MAX):
            nursery.start_soon(run, number)
    assert max(seen) == AT_WORK_MAX and len(ended) == 5 * AT_WORK_MAX


@trio_test
async def test_what_is_short_waits_for_nobody() -> None:
    gone = trio.Event()

    def endless() -> Turns[None]:
        while not gone.is_set():
            yield

    def short() -> Turns[str]:
        return "done"
        yield

    async with trio.open_nursery() as nursery:
        for _ in range(AT_WORK_MAX):
            nursery.start_soon(finish_in_line, endless())
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        assert await finish_in_line(short()) == "done"
        gone.set()


@trio_test
async def test_one_that_fails_makes_room() -> None:
    def failing() -> Turns[None]:
        yield
        raise ValueError

    def one() -> Turns[int]:
        yield
        return 1

    for _ in range(2 * AT_WORK_MAX):
        with pytest.raises(ValueError):
            await finish_in_line(failing())
    with trio.fail_after(60):
        assert await finish_in_line(one()) == 1
