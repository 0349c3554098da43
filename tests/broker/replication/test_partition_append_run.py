"""A leader's run of batches: which of it readers see, and which producers are refused."""

import errno

import pytest
import trio
from log.support import make_batch
from nodes import caller_of, make_topic, running_node, trio_test

from pk.core.broker.replication.partition import Partition
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.failures import LogDirBroken
from pk.core.log.memory_disk import MemoryDisk
from pk.core.record.batch import read_header
from pk.core.record.validation import ANY_TIME, ValidatedBatch, validate
from pk.net.node import Node


def run_of(partition: Partition, now_ms: int, count: int = 3) -> list[ValidatedBatch]:
    batches = [memoryview(make_batch(2, timestamp=now_ms)) for _ in range(count)]
    return [validate(batch, read_header(batch), partition.config, ANY_TIME) for batch in batches]


async def led(node: Node, flush_messages: str = "") -> tuple[Partition, int]:
    """A partition with one batch, and the time."""
    async with caller_of(node) as caller:
        configs = {"flush__messages": flush_messages} if flush_messages else {}
        await make_topic(caller, "t", 1, **configs)
    partition, now_ms = node.broker.data.replicas.partition("t", 0), node.broker.clock.now_ms()
    partition.append(make_batch(1, timestamp=now_ms), now_ms=now_ms)
    return partition, now_ms


@trio_test
async def test_readers_see_a_run_at_once() -> None:
    async with running_node(MemoryDisk()) as node:
        partition, now_ms = await led(node)
        assert partition.append_run(run_of(partition, now_ms), now_ms, acks_all=True) == [1, 3, 5]
        assert partition.high_watermark == 7


@trio_test
async def test_a_run_is_seen_when_it_is_synced_where_that_is_asked_for() -> None:
    async with running_node(MemoryDisk()) as node:
        partition, now_ms = await led(node, flush_messages="1")
        partition.append_run(run_of(partition, now_ms), now_ms, acks_all=True)
        assert partition.flushing and partition.high_watermark < 7
        assert await partition.wait_for_high_watermark(7, float("inf"), partition.leader_epoch)
        assert partition.log.durability.durable_offset == 7


@trio_test
async def test_only_the_leader_takes_a_run() -> None:
    async with running_node(MemoryDisk()) as node:
        partition, now_ms = await led(node)
        partition.stop()
        with pytest.raises(KafkaError) as caught:
            partition.append_run(run_of(partition, now_ms), now_ms, acks_all=False)
        assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.log.state.log_end_offset == 1


@trio_test
async def test_a_disk_that_fails_under_a_run_is_out_of_service() -> None:
    disk, code = MemoryDisk(), 0
    try:
        async with running_node(disk) as node:
            partition, now_ms = await led(node)
            disk.fail_next("write", errno.EIO, suffix=".log")
            with pytest.raises(KafkaError) as caught:
                partition.append_run(run_of(partition, now_ms), now_ms, acks_all=True)
            code = caught.value.code
            await trio.sleep_forever()
    except* LogDirBroken:
        pass
    assert code == ErrorCode.KAFKA_STORAGE_ERROR
