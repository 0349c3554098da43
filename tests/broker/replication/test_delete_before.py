"""Deleting the first records of a leader's partition: who is woken."""

import trio
from log.support import make_batch
from nodes import caller_of, make_topic, running_node, trio_test
from trio.testing import wait_all_tasks_blocked

from pk.core.log.memory_disk import MemoryDisk


@trio_test
async def test_deleting_what_is_deleted_wakes_nobody() -> None:
    async with running_node(MemoryDisk()) as node:
        async with caller_of(node) as caller:
            await make_topic(caller, "t", 1)
        partition, now_ms = node.broker.replicas.partition("t", 0), node.broker.clock.now_ms()
        partition.append(make_batch(1, timestamp=now_ms), now_ms=now_ms)
        looks = 0

        def is_deleted() -> bool:
            nonlocal looks
            looks += 1
            return partition.log.log_start_offset == 1

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                purgatory = node.broker.purgatory
                nursery.start_soon(purgatory.until, is_deleted, (partition,), float("inf"))
                await wait_all_tasks_blocked()
                assert looks == 1
                partition.delete_before(0)
                await wait_all_tasks_blocked()
                assert looks == 1
                partition.delete_before(1)
        assert looks == 2
