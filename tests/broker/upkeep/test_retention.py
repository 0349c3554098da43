"""Retention on a running node: old segments are deleted, files follow later, and readers get errors
for deleted offsets."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from nodes import caller_of, make_topic, running_node, trio_test

from pk.core.broker.replication.partition import DROPPED_AT_ONCE
from pk.core.broker.upkeep import retention
from pk.core.broker.upkeep.retention import LogRetention
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.memory_disk import MemoryDisk
from pk.core.record.build import build_batch
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.net.node import Node


def fill(node: Node, topic: str, age_ms: int, segments: int) -> None:
    """One record a segment, `age_ms` old; the last segment is active."""
    partition = node.broker.data.replicas.partition(topic, 0)
    now_ms = node.broker.clock.now_ms()
    for i in range(segments):
        if i:
            partition.log.segments.roll(now_ms)
        batch = build_batch([(now_ms - age_ms, b"k%d" % i, b"v" * 100, ())])
        partition.append(batch, now_ms=now_ms)


async def until(done: Callable[[], bool]) -> None:
    """Poll until `done`, since a test gets no event for the work of a thread or a timer."""
    while not done():  # noqa: ASYNC110
        await trio.sleep(0.002)


def files(disk: MemoryDisk, suffix: str) -> list[str]:
    return [n for n in disk.list("/data/t-0") if n.endswith(suffix)]


@trio_test
async def test_expired_segments_go_and_their_files_later() -> None:
    disk = MemoryDisk()
    async with running_node(disk) as node, caller_of(node) as caller:
        await make_topic(caller, "t", retention__ms="1000", file__delete__delay__ms="1")
        await make_topic(caller, "kept", cleanup__policy="compact", retention__ms="1000")
        fill(node, "t", 5000, 40)
        fill(node, "kept", 5000, 3)
        partition = node.broker.data.replicas.partition("t", 0)
        in_flight = partition.log.reader.read(0, 1 << 20, partition.high_watermark)
        await LogRetention(node.broker.data.replicas, node.broker.config).check()
        log = partition.log
        assert (log.state.log_start_offset, log.state.log_end_offset, len(log.state.segments)) == (
            40,
            40,
            1,
        )
        assert in_flight.slice.read(), "a reader in flight is served"
        assert node.broker.data.replicas.partition("kept", 0).log.state.log_start_offset == 0
        wish = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        answer = await caller.call(
            FetchRequest(
                replica_id=-1,
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=1 << 20,
                topics=[FetchTopic(topic="t", partitions=[wish])],
            ),
            12,
        )
        code = answer.responses[0].partitions[0].error_code
        assert code == ErrorCode.OFFSET_OUT_OF_RANGE
        await until(lambda: not files(disk, ".deleted"))
        assert files(disk, ".log") == [f"{40:020d}.log"]


@trio_test
async def test_a_log_that_is_cut_below_what_is_due_keeps_what_it_has() -> None:
    """An unclean leader has less than its follower had when retention looked."""
    async with running_node(None) as node, caller_of(node) as caller:
        await make_topic(caller, "t", retention__ms="1000")
        fill(node, "t", 5000, 5)
        partition, plan = node.broker.data.replicas.partition("t", 0), retention._plan

        def plan_and_cut(*args: Any) -> Any:
            due = plan(*args)
            partition.log.segments.truncate_to(2)
            partition.truncated()
            return due

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(retention, "_plan", plan_and_cut)
            await LogRetention(node.broker.data.replicas, node.broker.config).check()
        assert (partition.log.state.log_start_offset, partition.log.state.log_end_offset) == (0, 2)


@trio_test
async def test_many_segments_are_dropped_a_few_at_a_time_and_none_is_read_any_more() -> None:
    disk = MemoryDisk()
    async with running_node(disk) as node, caller_of(node) as caller:
        await make_topic(caller, "t", file__delete__delay__ms="1")
        segments = 2 * DROPPED_AT_ONCE + 10
        fill(node, "t", 0, segments)
        partition = node.broker.data.replicas.partition("t", 0)
        log = partition.log
        partition.delete_before(segments - 2)
        assert len(log.state.segments) == segments - DROPPED_AT_ONCE
        assert log.state.log_start_offset == segments - 2
        with pytest.raises(KafkaError) as refused:
            log.reader.read(segments - 3, 1 << 20, partition.high_watermark)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        await until(lambda: len(log.state.segments) == 2 and not files(disk, ".deleted"))
        assert files(disk, ".log") == [f"{n:020d}.log" for n in (segments - 2, segments - 1)]


@trio_test
async def test_what_cannot_be_dropped_just_now_is_left_to_retention() -> None:
    async with running_node(MemoryDisk()) as node, caller_of(node) as caller:
        await make_topic(caller, "t", cleanup__policy="compact")
        fill(node, "t", 0, DROPPED_AT_ONCE + 10)
        partition = node.broker.data.replicas.partition("t", 0)
        partition.delete_before(DROPPED_AT_ONCE + 5)
        partition.busy = True
        await trio.testing.wait_all_tasks_blocked()
        assert len(partition.log.state.segments) == 10
        partition.busy = False
        await LogRetention(node.broker.data.replicas, node.broker.config).check()
        assert len(partition.log.state.segments) == 5


@trio_test
async def test_a_log_that_changes_its_directory_meanwhile_is_left_to_the_next_check() -> None:
    async with running_node(MemoryDisk(), log__dirs="/a,/b") as node, caller_of(node) as caller:
        await make_topic(caller, "t", retention__ms="1000")
        fill(node, "t", 5000, 5 * DROPPED_AT_ONCE)
        partition = node.broker.data.replicas.partition("t", 0)
        dirs, old = node.broker.data.replicas._dirs, partition.log
        now_ms = node.broker.clock.now_ms()
        (other,) = (d for d in dirs.directories if d is not old.log_dir)
        retention = LogRetention(node.broker.data.replicas, node.broker.config)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(retention.check)
            while not old.state.log_start_offset:  # the check continues in turns
                await trio.lowlevel.checkpoint()
            future = dirs.open_future(old, other, now_ms)
            while data := old.reader.read_bytes(
                future.state.log_end_offset, 1 << 20, old.state.log_end_offset
            ):
                future.appender.append_as_follower(data, now_ms)
            dirs.promote(future, old)
            partition.log = future
        assert partition.log is future and future.state.log_start_offset < 5 * DROPPED_AT_ONCE
        await retention.check()
        assert future.state.log_start_offset == future.state.log_end_offset == 5 * DROPPED_AT_ONCE


@trio_test
async def test_the_check_comes_by_itself_and_takes_changed_configs() -> None:
    keys = {"log__retention__check__interval__ms": "5"}
    async with running_node(None, **keys) as node, caller_of(node) as caller:
        await make_topic(caller, "t", retention__ms="1000", retention__bytes="-1")
        fill(node, "t", 5000, 2)
        log = node.broker.data.replicas.partition("t", 0).log
        await until(lambda: log.state.log_start_offset == 2)
