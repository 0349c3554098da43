"""A task that goes through many things lets the others run, as often as its time is up."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from pk.core.broker.loop_time import BUDGET_MS, let_others_run, reset_budget


def test_others_run_when_the_time_is_up_and_not_before() -> None:
    clock = MockClock()
    rounds = 0

    async def other() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await let_others_run()
            nursery.start_soon(other)
            for _ in range(1000):
                await let_others_run()
            assert rounds == 0
            for _ in range(3):
                clock.jump(BUDGET_MS / 1000)
                await let_others_run()
            ran = rounds
            assert ran >= 2
            for _ in range(1000):
                await let_others_run()
            assert rounds == ran
            clock.jump(BUDGET_MS / 1000)
            reset_budget()
            await let_others_run()
            assert rounds == ran
            nursery.cancel_scope.cancel()

    trio.run(main, clock=clock)


def test_what_has_begun_is_not_cancelled() -> None:
    clock = MockClock()

    async def main() -> int:
        done = 0
        with trio.CancelScope() as scope:
            scope.cancel()
            for _ in range(3):
                clock.jump(BUDGET_MS / 1000)
                await let_others_run()
                done += 1
        return done

    assert trio.run(main, clock=clock) == 3
