"""A classic member whose program does not poll stays outside its group until it does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from net_client.scripted_group import Member, ScriptedGroup, coordinator, member
from trio.testing import MockClock

IDLE_S = 21


@asynccontextmanager
async def spare(
    answers: ScriptedGroup, strategy: str, *, beat_ms: int = 5
) -> AsyncIterator[Member]:
    """A member of a group with other members, which was assigned no partition."""
    answers.assigned = ()
    async with member(
        answers,
        "classic",
        partition_assignment_strategy=strategy,
        max_poll_interval_ms=20_000,
        heartbeat_interval_ms=beat_ms,
    ) as one:
        await one.poll_until(lambda: "SyncGroup" in answers.story)
        yield one


async def stays_outside(answers: ScriptedGroup) -> None:
    """It has left, and does not join."""
    await answers.until(lambda: "LeaveGroup" in answers.story)
    story = list(answers.story)
    with trio.move_on_after(0.3):  # more than a few backoffs
        await answers.until(lambda: answers.story != story)
    assert answers.story == story and story[-1] == "LeaveGroup"
    assert story.count("JoinGroup") == 1


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_member_without_partitions_joins_again_only_when_it_is_polled(strategy: str) -> None:
    clock = MockClock(rate=1)

    async def main() -> None:
        with trio.fail_after(100):
            async with coordinator() as answers, spare(answers, strategy) as one:
                clock.jump(IDLE_S)
                await stays_outside(answers)
                await one.poll_until(lambda: answers.story.count("SyncGroup") == 2)
                assert answers.story.count("LeaveGroup") == 1

    trio.run(main, clock=clock)


def test_a_member_that_is_not_polled_leaves_where_it_would_join_again() -> None:
    """Else the others would wait for it."""
    clock = MockClock(rate=1)

    async def main() -> None:
        with trio.fail_after(100):
            async with coordinator() as answers, spare(answers, "range", beat_ms=40_000) as one:
                clock.jump(IDLE_S)
                one.consumer.subscribe(["t", "u"])
                await stays_outside(answers)
                await one.poll_until(lambda: answers.story.count("SyncGroup") == 2)

    trio.run(main, clock=clock)


@pytest.mark.parametrize("how", ["close", "unsubscribe"])
def test_a_member_that_stays_outside_ends_at_once(how: str) -> None:
    clock = MockClock(rate=1)

    async def main() -> None:
        with trio.fail_after(100):
            async with coordinator() as answers, spare(answers, "range") as one:
                clock.jump(IDLE_S)
                await stays_outside(answers)
                before = trio.current_time()
                await getattr(one.consumer, how)()
                assert trio.current_time() - before < 1
                assert answers.story[-1] == "LeaveGroup" and answers.story.count("LeaveGroup") == 1
                if how == "unsubscribe":
                    one.consumer.subscribe(["t"])
                    await one.poll_until(lambda: answers.story.count("SyncGroup") == 2)

    trio.run(main, clock=clock)
