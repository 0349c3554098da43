"""Logs move between directories while they are written to."""

import threading
from typing import Any

import pytest
import trio
from nodes import Caller, caller_of, make_topic, running_node, trio_test

from pk.core.errors import ErrorCode
from pk.core.log.damaged import kept_files
from pk.core.log.log_loader import open_log
from pk.core.log.memory_disk import MemoryDisk, MemoryFile
from pk.core.log.state import LogIdentity
from pk.core.record.batch import iter_headers, read_header, records
from pk.core.record.build import build_batch
from pk.core.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pk.core.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pk.net.node import Node

DIRS = {"log__dirs": "/a,/b"}


def append(node: Node, count: int, start: int = 0) -> None:
    partition = node.broker.data.replicas.partition("t", 0)
    now_ms = node.broker.clock.now_ms()
    for i in range(start, start + count):
        partition.append(build_batch([(now_ms, b"k", b"%d" % i, ())]), now_ms=now_ms)


def values(node: Node) -> list[bytes | None]:
    log = node.broker.data.replicas.partition("t", 0).log
    found = []
    for segment in log.state.segments:
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
    here = node.broker.data.replicas.partition("t", 0).log.log_dir.path
    return "/b" if here == "/a" else "/a"


async def moved(node: Node, path: str) -> None:
    while node.broker.data.replicas.partition("t", 0).log.log_dir.path != path:  # noqa: ASYNC110
        await trio.sleep(0.001)


@trio_test
async def test_a_log_moves_under_writes_and_stays_there() -> None:
    disk = MemoryDisk()
    async with running_node(disk, **DIRS) as node, caller_of(node) as caller:
        await make_topic(caller, "t", file__delete__delay__ms="1")
        append(node, 500)
        partition = node.broker.data.replicas.partition("t", 0)
        partition.delete_before(10)
        old, target = partition.log, other(node)
        in_flight = old.reader.read(20, 1 << 20, 500)
        assert await ask(caller, target, version=1) == ErrorCode.NONE
        append(node, 100, 500)
        await moved(node, target)
        append(node, 5, 600)
        assert values(node) == [b"%d" % i for i in range(10, 605)]
        assert partition.log.state.log_start_offset == 10
        assert partition.log.state.epochs.entries == old.state.epochs.entries
        assert await places(caller) == [(target, False, 0)]
        assert len(in_flight.slice.read()) == in_flight.length
        while [n for d in "ab" for n in disk.list(f"/{d}") if n.endswith("-delete")]:  # noqa: ASYNC110
            await trio.sleep(0.001)
    async with running_node(disk, **DIRS) as node:
        assert node.broker.data.replicas.partition("t", 0).log.log_dir.path == target
        assert values(node) == [b"%d" % i for i in range(10, 605)]


@trio_test
async def test_a_log_that_begins_inside_a_batch_moves_too() -> None:
    disk = MemoryDisk()
    async with running_node(disk, **DIRS) as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        partition, target = node.broker.data.replicas.partition("t", 0), other(node)
        now_ms = node.broker.clock.now_ms()
        batch = build_batch([(now_ms, b"k", b"%d" % i, ()) for i in range(10)])
        partition.append(batch, now_ms=now_ms)
        partition.delete_before(5)
        assert await ask(caller, target) == ErrorCode.NONE
        await moved(node, target)
        assert (partition.log.state.log_start_offset, partition.log.state.log_end_offset) == (5, 10)
        append(node, 1, 10)
        assert values(node) == [b"%d" % i for i in range(11)]
    async with running_node(disk, **DIRS) as node:
        log = node.broker.data.replicas.partition("t", 0).log
        assert (log.log_dir.path, log.state.log_start_offset, log.state.log_end_offset) == (
            target,
            5,
            11,
        )


@trio_test
async def test_a_damaged_logs_mark_and_what_was_cut_off_go_along() -> None:
    """This includes damage that is found, and repaired, while the log moves."""
    disk = MemoryDisk()
    async with running_node(disk, **DIRS) as node, caller_of(node) as caller:
        await make_topic(caller, "t", file__delete__delay__ms="1")
        append(node, 20)
        partition, target = node.broker.data.replicas.partition("t", 0), other(node)
        partition.high_watermark = 20
        partition.log.log_dir.write_high_watermarks({partition.tp: 20})
        partition.log.keep_from(15)
        partition.log.segments.truncate_to(15)
        mark = partition.log.mark
        kept = disk.read(f"{partition.log.state.directory}/00000000000000000015.log.cut.damaged")
        assert mark is not None and len(list(iter_headers(kept))) == 5
        assert await ask(caller, target) == ErrorCode.NONE
        await moved(node, target)
        assert (partition.log.mark, partition.log.kept_bytes) == (mark, len(kept))
        while [n for d in "ab" for n in disk.list(f"/{d}") if n.endswith("-delete")]:  # noqa: ASYNC110
            await trio.sleep(0.001)
        assert partition.log.log_dir.high_watermarks[partition.tp] == 20
    async with running_node(disk, **DIRS) as node, caller_of(node) as caller:
        partition = node.broker.data.replicas.partition("t", 0)
        assert (partition.log.log_dir.path, partition.log.mark) == (target, mark)
        directory = partition.log.state.directory
        assert disk.read(f"{directory}/00000000000000000015.log.cut.damaged") == kept
        partition.log.clear_mark()
        assert await ask(caller, other(node)) == ErrorCode.NONE
        await moved(node, other(node))
        assert partition.log.mark is None
        assert len(kept_files(disk, partition.log.state.directory)) == 1
    async with running_node(disk, **DIRS) as node:
        assert node.broker.data.replicas.partition("t", 0).log.mark is None


class Waiting(MemoryDisk):
    """A disk that takes its time with the recovery points."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.go_on.set()

    def write(self, path: str, data: bytes, **how: Any) -> None:
        if path.endswith("/recovery-point-offset-checkpoint"):
            assert self.go_on.wait(60)
        super().write(path, data, **how)


@trio_test
async def test_a_log_that_has_just_come_is_not_on_its_way_too() -> None:
    disk = Waiting()
    async with running_node(disk, **DIRS) as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        append(node, 5)
        target = other(node)
        disk.go_on.clear()
        assert await ask(caller, target) == ErrorCode.NONE
        await moved(node, target)
        found = await places(caller)
        disk.go_on.set()
        assert found == [(target, False, 0)]


class SlowToOpen(MemoryDisk):
    """A disk that takes its time with the future log of the topic u."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def open(self, path: str) -> MemoryFile:
        if "/u-0." in path and path.endswith("-future/00000000000000000000.log"):
            self.begun.set()
            assert self.go_on.wait(60)
        return super().open(path)


@trio_test
async def test_a_copy_that_is_checked_for_long_keeps_neither_the_loop_nor_another_move() -> None:
    disk = SlowToOpen()
    async with running_node(disk, **DIRS) as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        await make_topic(caller, "u")
        append(node, 5)
        target = other(node)
        here = node.broker.data.replicas.partition("u", 0).log.log_dir.path
        assert await ask(caller, "/b" if here == "/a" else "/a", "u") == ErrorCode.NONE
        await trio.to_thread.run_sync(disk.begun.wait, 60)
        assert await ask(caller, target) == ErrorCode.NONE
        await moved(node, target)
        disk.go_on.set()


@trio_test
async def test_what_cannot_be_is_refused() -> None:
    async with running_node(None, **DIRS) as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        assert await ask(caller, "/c") == ErrorCode.LOG_DIR_NOT_FOUND
        assert await ask(caller, "/a", "none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        here = node.broker.data.replicas.partition("t", 0).log.log_dir.path
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
        assert node.broker.data.replicas.partition("t", 0).topic_id == topic_id
    assert not [n for n in disk.list(target) if n.endswith("-future")]


@trio_test
async def test_of_two_logs_that_a_crash_left_the_one_that_goes_further_is_taken() -> None:
    disk = MemoryDisk()
    async with running_node(disk, **DIRS) as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        append(node, 50)
        here, target = node.broker.data.replicas.partition("t", 0).log.log_dir.path, other(node)
    disk.make(f"{target}/t-0")
    for name in disk.list(f"{here}/t-0"):
        data = disk.read(f"{here}/t-0/{name}")
        disk.write(f"{target}/t-0/{name}", data[: len(data) // 2] if "log" in name else data)
    async with running_node(disk, **DIRS) as node:
        assert node.broker.data.replicas.partition("t", 0).log.log_dir.path == here
        assert values(node) == [b"%d" % i for i in range(50)]
    assert [n for n in disk.list(target) if n.endswith("-stray")]


@trio_test
async def test_who_has_the_later_records_goes_further_whatever_the_segments() -> None:
    """One log ends a segment at an offset at which the other continues its segment."""
    disk = MemoryDisk()
    async with running_node(disk, **DIRS) as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        append(node, 50)
        log, target = node.broker.data.replicas.partition("t", 0).log, other(node)
        disk.make(f"{target}/t-0")
        for name in disk.list(log.state.directory):
            disk.write(f"{target}/t-0/{name}", disk.read(f"{log.state.directory}/{name}"))
        log.segments.roll(node.broker.clock.now_ms())
        identity = LogIdentity(disk, f"{target}/t-0", log.state.tp, log.state.topic_id)
        newer = open_log(identity, log.state.config, node.broker.clock.now_ms())
        batch = build_batch([(node.broker.clock.now_ms(), b"k", b"50", ())])
        newer.appender.append_as_leader(batch, read_header(batch), 1, node.broker.clock.now_ms())
        newer.close()
    async with running_node(disk, **DIRS) as node:
        assert node.broker.data.replicas.partition("t", 0).log.log_dir.path == target
        assert values(node) == [b"%d" % i for i in range(51)]


@trio_test
async def test_where_a_log_is_to_be_made_is_remembered() -> None:
    """Kafka does the same: a reassignment first says in which directory a replica will be
    created."""
    async with running_node(None, **DIRS) as node, caller_of(node) as caller:
        for name, path in (("x", "/b"), ("y", "/b"), ("z", "/b")):
            assert await ask(caller, path, name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await ask(caller, "/a", "y") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for name, path in (("x", "/b"), ("y", "/a"), ("z", "/b")):
            await make_topic(caller, name)
            assert node.broker.data.replicas.partition(name, 0).log.log_dir.path == path
        await make_topic(caller, "u")  # without a wish: the directory with the fewest
        assert node.broker.data.replicas.partition("u", 0).log.log_dir.path == "/a"


@trio_test
async def test_a_cordoned_directory_gets_no_more_logs() -> None:
    async with running_node(None, **DIRS, cordoned__log__dirs="/a") as node, caller_of(node) as c:
        for name in ("t", "x", "y"):
            await make_topic(c, name)
            assert node.broker.data.replicas.partition(name, 0).log.log_dir.path == "/b"
        assert await ask(c, "/a") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        answer = await c.call(DescribeLogDirsRequest(topics=None), 5)
        assert {r.log_dir: r.is_cordoned for r in answer.results} == {"/a": True, "/b": False}
        await cordon(c, "")
        await make_topic(c, "z")
        assert node.broker.data.replicas.partition("z", 0).log.log_dir.path == "/a"
        await cordon(c, "/b")
        assert await ask(c, "/a") == ErrorCode.NONE
        await moved(node, "/a")
        answer = await c.call(DescribeLogDirsRequest(topics=None), 5)
        assert {r.log_dir: r.is_cordoned for r in answer.results} == {"/a": False, "/b": True}


@trio_test
async def test_a_move_is_no_faster_than_it_may_be() -> None:
    quota = "replica.alter.log.dirs.io.max.bytes.per.second"
    async with (
        running_node(None, **DIRS, **{quota.replace(".", "__"): "1"}) as node,
        caller_of(node) as caller,
    ):
        await make_topic(caller, "t")
        here, target = node.broker.data.replicas.partition("t", 0).log.log_dir.path, other(node)
        now_ms = node.broker.clock.now_ms()
        for _ in range(12):  # more than is copied at once, and than is left for the loop
            value = bytes(200_000)
            node.broker.data.replicas.partition("t", 0).append(
                build_batch([(now_ms, b"k", value, ())]), now_ms=now_ms
            )
        assert await ask(caller, target) == ErrorCode.NONE
        while not node.broker.data.replication_quotas.directories.exceeded:  # noqa: ASYNC110
            await trio.sleep(0.001)
        (lag,) = {lag for path, future, lag in await places(caller) if future and path == target}
        assert lag > 0
        for _ in range(20):  # without the throttle it would be done by then
            assert (target, True, lag) in await places(caller)
        assert node.broker.data.replicas.partition("t", 0).log.log_dir.path == here
        await configure(caller, quota, str(1 << 40))
        await moved(node, target)


@pytest.mark.parametrize("between", ["here", "elsewhere"])
@trio_test
async def test_who_changes_his_mind_twice_gets_what_he_asked_for_last(between: str) -> None:
    """A move that is not wanted any more removes its copy before the next one begins with it."""
    disk = MemoryDisk()
    async with running_node(disk, log__dirs="/a,/b,/c") as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        partition, moves = (
            node.broker.data.replicas.partition("t", 0),
            node.broker.data.alter_log_dirs,
        )
        now_ms = node.broker.clock.now_ms()
        for _ in range(12):  # more than is copied at once
            partition.append(build_batch([(now_ms, b"k", bytes(200_000), ())]), now_ms=now_ms)
        here, there, elsewhere = sorted("abc", key=lambda d: f"/{d}" != partition.log.log_dir.path)
        node.broker.data.replication_quotas.directories.rate = 1
        moves.move("t", 0, f"/{there}")
        while not node.broker.data.replication_quotas.directories.exceeded:  # noqa: ASYNC110
            await trio.sleep(0.001)
        moves.move("t", 0, f"/{here if between == 'here' else elsewhere}")
        moves.move("t", 0, f"/{there}")
        node.broker.data.replication_quotas.directories.rate = 1 << 40
        await moved(node, f"/{there}")
        assert values(node) == [bytes(200_000)] * 12
        while moves.moves(partition.log.log_dir):  # noqa: ASYNC110
            await trio.sleep(0.001)
        assert not [n for d in "abc" for n in disk.list(f"/{d}") if n.endswith("-future")]


async def cordon(caller: Caller, paths: str) -> None:
    await configure(caller, "cordoned.log.dirs", paths)


async def configure(caller: Caller, key: str, value: str) -> None:
    wish = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[wish])
    answer = await caller.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == ErrorCode.NONE, answer


@trio_test
async def test_a_damaged_log_stays_where_it_is_and_the_broker_goes_on() -> None:
    disk = MemoryDisk()
    async with running_node(disk, **DIRS) as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        append(node, 50)
        here, target = node.broker.data.replicas.partition("t", 0).log.log_dir.path, other(node)
    async with running_node(disk, **DIRS) as node, caller_of(node) as caller:
        file = disk.open(f"{here}/t-0/{0:020d}.log")
        file.pwrite(b"\xff\xff\xff", file.size() // 2)
        assert await ask(caller, target) == ErrorCode.NONE
        directory = node.broker.data.replicas.directories[target == "/b"]
        while node.broker.data.alter_log_dirs.moves(directory):  # noqa: ASYNC110
            await trio.sleep(0.001)
        assert await places(caller) == [(here, False, 0)]
        append(node, 1)
    assert not [n for n in disk.list(target) if n.endswith("-future")]
