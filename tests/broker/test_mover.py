"""Logs move between directories while they are written to."""

import trio
from nodes import Caller, caller_of, make_topic, running_node, trio_test

from pk.core.errors import ErrorCode
from pk.core.log.memory_disk import MemoryDisk
from pk.core.record.batch import iter_headers, records
from pk.core.record.build import build_batch
from pk.core.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pk.core.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from pk.net.node import Node

DIRS = {"log__dirs": "/a,/b"}


def append(node: Node, count: int, start: int = 0) -> None:
    partition = node.broker.replicas.partition("t", 0)
    now_ms = node.broker.clock.now_ms()
    for i in range(start, start + count):
        partition.append(build_batch([(now_ms, b"k", b"%d" % i, ())]), now_ms=now_ms)


def values(node: Node) -> list[bytes | None]:
    log = node.broker.replicas.partition("t", 0).log
    found = []
    for segment in log.segments:
        data = segment.file.pread(segment.size, 0)
        for position, header in iter_headers(data):
            found += [r.value for r in records(data[position : position + header.size])]
    return found


async def ask(caller: Caller, path: str, topic: str = "t", version: int = 2) -> int:
    wish = AlterReplicaLogDir(
        path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[0])]
    )
    answer = await caller.call(AlterReplicaLogDirsRequest(dirs=[wish]), version)
    return answer.results[0].partitions[0].error_code


async def places(caller: Caller) -> list[tuple[str, bool, int]]:
    """(directory, whether it is a future log, lag) of the log."""
    answer = await caller.call(DescribeLogDirsRequest(topics=None), 4)
    return [
        (result.log_dir, p.is_future_key, p.offset_lag)
        for result in answer.results
        for topic in result.topics
        if topic.name == "t"
        for p in topic.partitions
    ]


def other(node: Node) -> str:
    here = node.broker.replicas.partition("t", 0).log.log_dir.path
    return "/b" if here == "/a" else "/a"


async def moved(node: Node, path: str) -> None:
    while node.broker.replicas.partition("t", 0).log.log_dir.path != path:  # noqa: ASYNC110
        await trio.sleep(0.001)


@trio_test
async def test_a_log_moves_under_writes_and_stays_there() -> None:
    disk = MemoryDisk()
    async with running_node(disk, **DIRS) as node, caller_of(node) as caller:
        await make_topic(caller, "t", file__delete__delay__ms="1")
        append(node, 500)
        partition = node.broker.replicas.partition("t", 0)
        partition.delete_before(10)
        old, target = partition.log, other(node)
        in_flight = old.read(20, 1 << 20, 500)
        assert await ask(caller, target, version=1) == ErrorCode.NONE
        append(node, 100, 500)
        await moved(node, target)
        append(node, 5, 600)
        assert values(node) == [b"%d" % i for i in range(10, 605)]
        assert partition.log.log_start_offset == 10
        assert partition.log.epochs.entries == old.epochs.entries
        assert await places(caller) == [(target, False, 0)]
        assert len(in_flight.slice.read()) == in_flight.length
        while [n for d in "ab" for n in disk.list(f"/{d}") if n.endswith("-delete")]:  # noqa: ASYNC110
            await trio.sleep(0.001)
    async with running_node(disk, **DIRS) as node:
        assert node.broker.replicas.partition("t", 0).log.log_dir.path == target
        assert values(node) == [b"%d" % i for i in range(10, 605)]


@trio_test
async def test_what_cannot_be_is_refused() -> None:
    async with running_node(None, **DIRS) as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        assert await ask(caller, "/c") == ErrorCode.LOG_DIR_NOT_FOUND
        assert await ask(caller, "/a", "none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        here = node.broker.replicas.partition("t", 0).log.log_dir.path
        assert await ask(caller, here) == ErrorCode.NONE
        assert await places(caller) == [(here, False, 0)]


@trio_test
async def test_a_future_log_that_a_stop_left_is_gone_on_with() -> None:
    disk = MemoryDisk()
    async with running_node(disk, **DIRS) as node, caller_of(node) as caller:
        topic_id = await make_topic(caller, "t")
        append(node, 50)
        target = other(node)
    path = f"{target}/t-0.{'ab' * 16}-future"
    disk.make(path)
    async with running_node(disk, **DIRS) as node:
        await moved(node, target)
        assert values(node) == [b"%d" % i for i in range(50)]
        assert node.broker.replicas.partition("t", 0).topic_id == topic_id
    assert not [n for n in disk.list(target) if n.endswith("-future")]


@trio_test
async def test_of_two_logs_that_a_crash_left_the_one_that_goes_further_is_taken() -> None:
    disk = MemoryDisk()
    async with running_node(disk, **DIRS) as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        append(node, 50)
        here, target = node.broker.replicas.partition("t", 0).log.log_dir.path, other(node)
    disk.make(f"{target}/t-0")
    for name in disk.list(f"{here}/t-0"):
        data = disk.read(f"{here}/t-0/{name}")
        disk.write(f"{target}/t-0/{name}", data[: len(data) // 2] if "log" in name else data)
    async with running_node(disk, **DIRS) as node:
        assert node.broker.replicas.partition("t", 0).log.log_dir.path == here
        assert values(node) == [b"%d" % i for i in range(50)]
    assert [n for n in disk.list(target) if n.endswith("-stray")]
