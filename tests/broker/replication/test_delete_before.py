"""Deleting the first records of a leader's partition: which waiting requests are woken, and a disk
that fails."""

import pytest
import trio
from log.support import make_batch
from nodes import caller_of, make_topic, running_node, trio_test
from trio.testing import wait_all_tasks_blocked

from pk.core.log.failures import StorageError
from pk.core.log.memory_disk import MemoryDisk


@trio_test
async def test_deleting_what_is_deleted_wakes_nobody() -> None:
    async with running_node(MemoryDisk()) as node:
        async with caller_of(node) as caller:
            await make_topic(caller, "t", 1)
        partition, now_ms = node.broker.data.replicas.partition("t", 0), node.broker.clock.now_ms()
        partition.append(make_batch(1, timestamp=now_ms), now_ms=now_ms)
        looks = 0

        def is_deleted() -> bool:
            nonlocal looks
            looks += 1
            return partition.log.state.log_start_offset == 1

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


@trio_test
async def test_a_disk_that_fails_is_taken_out_of_service_at_once() -> None:
    disk = MemoryDisk()
    async with running_node(disk, log__dirs="/a,/b") as node, caller_of(node) as caller:
        await make_topic(caller, "t", 1)
        partition, now_ms = node.broker.data.replicas.partition("t", 0), node.broker.clock.now_ms()
        for _ in range(2):
            partition.append(make_batch(1, timestamp=now_ms), now_ms=now_ms)
            partition.log.segments.roll(now_ms)
        disk.fail_next("rename", suffix=f"{0:020d}.log")
        with pytest.raises(StorageError):
            partition.delete_before(1)
        assert partition.offline is not None and partition.log.log_dir.failed
