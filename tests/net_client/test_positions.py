"""Positions of a member that are looked up while partitions come and go, or an answer is long in
coming."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from net_client.scripted_group import P0, P1, PROTOCOLS, Held, coordinator, member
from net_client.support import trio_test


@pytest.mark.parametrize("protocol", PROTOCOLS)
@trio_test
async def test_a_committed_offset_that_was_looked_up_for_an_earlier_stay_is_not_used(
    protocol: str,
) -> None:
    async with coordinator() as answers:
        first = answers.held_fetch = Held()
        answers.stored = {0: 100}
        async with member(answers, protocol) as one:
            await first.arrived.wait()
            answers.put_out()
            await one.poll_until(lambda: one.told == ["assigned", "lost", "assigned"])
            answers.stored = {0: 150}  # by the partition's owner in between
            first.release.set()
            assert await one.consumer.position(P0) == 150


@trio_test
async def test_who_waits_for_a_committed_offset_holds_up_no_other_partition() -> None:
    async with coordinator() as answers:
        answers.assigned = (P0, P1)
        first = answers.held_fetch = Held()
        async with member(answers, "consumer", default_api_timeout_ms=5000) as one:
            await first.arrived.wait()
            one.consumer.seek_to_beginning([P1])
            assert await one.consumer.position(P1) == 7
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one.consumer.position, P0)
                await trio.testing.wait_all_tasks_blocked()  # nor does it keep the others busy
                first.release.set()
            assert await one.consumer.position(P0) == 150
            assert await one.consumer.position(P1) == 7
