"""The cleaner on a running node: by itself, in a thread and in a process, for topics and for
groups' offsets."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from nodes import Caller, caller_of, make_topic, running_node, trio_test

from pk.core.broker.replication.partition import Partition
from pk.core.broker.upkeep.cleaner import Cleaner, Compactor, ThreadCompactor
from pk.core.broker.upkeep.retention import LogRetention
from pk.core.errors import ErrorCode
from pk.core.log.disk import RealDisk
from pk.core.log.files import Disk
from pk.core.log.memory_disk import MemoryDisk
from pk.core.record.batch import iter_headers, records
from pk.core.record.build import build_batch
from pk.core.values import OFFSETS_TOPIC
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pk.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pk.net.compactor import InProcess
from pk.net.node import Node

KEYS = {"segment__ms": "3600000", "min__cleanable__dirty__ratio": "0.01"}


async def until(done: Callable[[], bool]) -> None:
    """Poll until `done`, since a test gets no event for the work of a thread or a timer."""
    while not done():  # noqa: ASYNC110
        await trio.sleep(0.002)


def fill(node: Node, partition: Partition, rounds: int = 20, keys: int = 5, pad: int = 0) -> None:
    """Every key once a round; a segment each three rounds, the last of them active."""
    now_ms = node.broker.clock.now_ms()
    for i in range(rounds):
        batch = build_batch([(now_ms, b"k%d" % k, b" " * pad + b"%d" % i, ()) for k in range(keys)])
        partition.append(batch, now_ms=now_ms)
        if i % 3 == 2:
            partition.log.segments.roll(now_ms)


def held(partition: Partition) -> dict[bytes | None, bytes | None]:
    """The last value of each key, and that no key is there twice below the active segment."""
    log, found, below = partition.log, {}, set()
    for segment in log.state.segments:
        data = segment.file.pread(segment.size, 0)
        for position, header in iter_headers(data):
            for record in records(data[position : position + header.size], header):
                if segment is not log.state.segments[-1]:
                    assert record.key not in below, "not compacted"
                    below.add(record.key)
                found[record.key] = record.value
    return found


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_a_log_is_compacted(kind: str, tmp_path: Path) -> None:
    @trio_test
    async def run() -> None:
        disk: Disk = RealDisk() if kind == "process" else MemoryDisk()
        path = str(tmp_path) if kind == "process" else "/data"
        compactor: Compactor = InProcess() if kind == "process" else ThreadCompactor(disk)
        async with running_node(disk, log__dirs=path) as node, caller_of(node) as caller:
            await make_topic(caller, "t", 1, cleanup__policy="compact", **KEYS)
            await make_topic(caller, "plain", cleanup__policy="delete")
            partition = node.broker.data.replicas.partition("t", 0)
            plain = node.broker.data.replicas.partition("plain", 0)
            fill(node, partition)
            fill(node, plain)
            cleaner = Cleaner(node.broker.data.replicas, lambda: node.broker.config, compactor)
            assert await cleaner.clean_one()
            assert not await cleaner.clean_one(), "the other is not to be compacted"
            assert len(partition.log.state.segments) == 2 and len(plain.log.state.segments) == 7
            assert held(partition) == {b"k%d" % k: b"19" for k in range(5)}
            assert partition.log.segments.first_dirty_offset == 90
            noted = disk.read(f"{path}/cleaner-offset-checkpoint")
            assert noted == b"0\n1\nt 0 90\n"

    run()


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_it_reads_and_writes_no_faster_than_it_may(kind: str, tmp_path: Path) -> None:
    @trio_test
    async def run() -> None:
        disk: Disk = RealDisk() if kind == "process" else MemoryDisk()
        path = str(tmp_path) if kind == "process" else "/data"
        compactor: Compactor = InProcess() if kind == "process" else ThreadCompactor(disk)
        keys = {"log__cleaner__io__max__bytes__per__second": "400000"}
        async with running_node(disk, log__dirs=path, **keys) as node, caller_of(node) as caller:
            await make_topic(caller, "t", 1, cleanup__policy="compact", **KEYS)
            partition = node.broker.data.replicas.partition("t", 0)
            fill(node, partition, pad=1000)
            dirty = sum(segment.size for segment in partition.log.state.segments[:-1])
            cleaner = Cleaner(node.broker.data.replicas, lambda: node.broker.config, compactor)
            began = trio.current_time()
            assert await cleaner.clean_one()
            # Once for the keys and once to copy; a sleep may last longer, never shorter.
            assert trio.current_time() - began >= 2 * dirty / 400_000
            assert held(partition).keys() == {b"k%d" % k for k in range(5)}

    run()


@trio_test
async def test_it_comes_by_itself_and_finds_what_a_restart_left() -> None:
    disk = MemoryDisk()
    keys = {"log__cleaner__backoff__ms": "2", "log__cleaner__threads": "2"}
    async with running_node(disk, **keys) as node, caller_of(node) as caller:
        await make_topic(caller, "t", 1, cleanup__policy="compact", **KEYS)
        partition = node.broker.data.replicas.partition("t", 0)
        fill(node, partition)
        await until(lambda: partition.log.segments.first_dirty_offset == 90)
        assert held(partition) == {b"k%d" % k: b"19" for k in range(5)}
    async with running_node(disk) as node:
        partition = node.broker.data.replicas.partition("t", 0)
        assert partition.log.segments.first_dirty_offset == 90
        assert held(partition) == {b"k%d" % k: b"19" for k in range(5)}
        assert partition.log.state.log_end_offset == 100


@trio_test
async def test_a_topic_may_be_compacted_and_lose_what_is_old() -> None:
    async with running_node(None) as node, caller_of(node) as caller:
        both = {"cleanup__policy": "compact,delete", "retention__ms": "60000"}
        await make_topic(caller, "t", 1, **both, **KEYS)
        partition = node.broker.data.replicas.partition("t", 0)
        log, now_ms = partition.log, node.broker.clock.now_ms()
        for key in (b"old", b"old too"):
            at_ms = now_ms - 3_000_000
            partition.append(build_batch([(at_ms, key, b"", ())]), now_ms=now_ms)
        log.segments.roll(now_ms)
        fill(node, partition)
        await LogRetention(node.broker.data.replicas, node.broker.config).check()
        assert log.state.log_start_offset == 2
        cleaner = Cleaner(
            node.broker.data.replicas, lambda: node.broker.config, ThreadCompactor(log.state.disk)
        )
        assert await cleaner.clean_one()
        assert held(partition) == {b"k%d" % k: b"19" for k in range(5)}
        assert (log.state.log_start_offset, log.state.log_end_offset) == (2, 102)


@trio_test
async def test_groups_offsets_are_compacted_and_read_again() -> None:
    disk = MemoryDisk()
    keys = {"offsets__topic__num__partitions": "1"}
    async with running_node(disk, **keys) as node, caller_of(node) as caller:
        await make_topic(caller, "t", 3)
        for n in range(20):
            for number in range(3):
                await commit(caller, "one", number, 100 * number + n)
            await commit(caller, "two", 0, n)
        log = node.broker.data.replicas.partition(OFFSETS_TOPIC, 0).log
        log.segments.roll(node.broker.clock.now_ms())
        before = log.state.size
        cleaner = Cleaner(
            node.broker.data.replicas, lambda: node.broker.config, ThreadCompactor(disk)
        )
        assert await cleaner.clean_one()
        assert log.state.size < before / 5
        wanted = [(19, 119, 219), (19, -1, -1)]
        assert [await committed(caller, group) for group in ("one", "two")] == wanted
    async with running_node(disk, **keys) as node, caller_of(node) as caller:
        assert [await committed(caller, group) for group in ("one", "two")] == wanted


async def commit(caller: Caller, group: str, number: int, offset: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    while True:  # the coordinator comes with the first question for it
        await caller.call(FindCoordinatorRequest(key=group), 0)
        answer = await caller.call(OffsetCommitRequest(group_id=group, topics=[topic]), 2)
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            return


async def committed(caller: Caller, group: str) -> tuple[int, ...]:
    """The group's offsets in the three partitions; -1 if it has none."""
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1, 2])
    while True:
        await caller.call(FindCoordinatorRequest(key=group), 0)
        answer = await caller.call(OffsetFetchRequest(group_id=group, topics=[topic]), 2)
        if answer.error_code == ErrorCode.NONE:
            return tuple(p.committed_offset for p in answer.topics[0].partitions)


@trio_test
async def test_the_oldest_record_may_not_wait_longer_than_the_lag() -> None:
    keys = {"log__cleaner__backoff__ms": "2"}
    async with running_node(None, **keys) as node, caller_of(node) as caller:
        wishes = {"max__compaction__lag__ms": "100", "min__cleanable__dirty__ratio": "1"}
        await make_topic(caller, "t", 1, cleanup__policy="compact", **wishes)
        partition = node.broker.data.replicas.partition("t", 0)
        now_ms = node.broker.clock.now_ms()
        for value in (b"1", b"2"):
            partition.append(build_batch([(now_ms, b"k", value, ())]), now_ms=now_ms)
        await until(lambda: partition.log.segments.first_dirty_offset == 2)
        assert held(partition) == {b"k": b"2"}


@trio_test
async def test_a_damaged_log_is_set_aside_and_the_others_go_on() -> None:
    disk = MemoryDisk()
    async with running_node(disk) as node, caller_of(node) as caller:
        for name in ("bad", "good"):
            await make_topic(caller, name, 1, cleanup__policy="compact", **KEYS)
            fill(node, node.broker.data.replicas.partition(name, 0))
        bad = node.broker.data.replicas.partition("bad", 0)
        bad.log.state.segments[0].file.pwrite(b"\xff", 80)
        cleaner = Cleaner(
            node.broker.data.replicas, lambda: node.broker.config, ThreadCompactor(disk)
        )
        results = [await cleaner.clean_one() for _ in range(4)]
        assert results.count(True) == 1 and not any(results[2:])
        assert node.broker.data.replicas.partition("good", 0).log.segments.first_dirty_offset == 90
        assert bad.log.segments.first_dirty_offset is None and bad.offline is None


@trio_test
async def test_a_full_disk_ends_the_round_and_harms_nothing() -> None:
    disk = MemoryDisk()
    async with running_node(disk) as node, caller_of(node) as caller:
        await make_topic(caller, "t", 1, cleanup__policy="compact", **KEYS)
        partition = node.broker.data.replicas.partition("t", 0)
        fill(node, partition, pad=300)
        before = [s.size for s in partition.log.state.segments]
        cleaner = Cleaner(
            node.broker.data.replicas, lambda: node.broker.config, ThreadCompactor(disk)
        )
        disk.bytes_max = disk.used_bytes + 1000
        assert not await cleaner.clean_one()
        assert partition.offline is None
        assert [s.size for s in partition.log.state.segments] == before
        disk.bytes_max = None
        assert await cleaner.clean_one()
        assert held(partition) == {b"k%d" % k: b" " * 300 + b"19" for k in range(5)}


@pytest.mark.parametrize("name", ["leader-epoch", "recovery-point-offset"])
def test_nothing_is_compacted_before_the_recovery_point_is_noted(name: str) -> None:
    @trio_test
    async def run() -> None:
        disk = MemoryDisk()
        async with running_node(disk) as node, caller_of(node) as caller:
            await make_topic(caller, "t", 1, cleanup__policy="compact", **KEYS)
            partition = node.broker.data.replicas.partition("t", 0)
            fill(node, partition)
            before = [s.size for s in partition.log.state.segments]
            cleaner = Cleaner(
                node.broker.data.replicas, lambda: node.broker.config, ThreadCompactor(disk)
            )
            disk.fail_next("write", errno.ENOSPC, suffix=f"{name}-checkpoint.tmp", times=2)
            for _ in range(2):
                assert not await cleaner.clean_one()
                assert partition.offline is None
                assert [s.size for s in partition.log.state.segments] == before
            assert await cleaner.clean_one()
            assert b"\nt 0 90\n" in disk.read("/data/recovery-point-offset-checkpoint")
            assert held(partition) == {b"k%d" % k: b"19" for k in range(5)}

    run()


@trio_test
async def test_a_topic_deleted_meanwhile_is_let_go() -> None:
    disk = MemoryDisk()
    async with running_node(disk) as node, caller_of(node) as caller:
        await make_topic(caller, "t", 1, cleanup__policy="compact", **KEYS)
        partition = node.broker.data.replicas.partition("t", 0)
        fill(node, partition)

        class Deleting(ThreadCompactor):
            async def _steps(self, job, bytes_per_s):  # type: ignore[no-untyped-def]
                async for one in super()._steps(job, bytes_per_s):
                    node.broker.data.replicas._by_topic.pop("t")
                    yield one

        cleaner = Cleaner(node.broker.data.replicas, lambda: node.broker.config, Deleting(disk))
        assert not await cleaner.clean_one()
        assert len(partition.log.state.segments) == 7


@trio_test
async def test_a_log_that_changes_its_directory_meanwhile_is_left_to_the_next_round() -> None:
    disk = MemoryDisk()
    async with running_node(disk, log__dirs="/a,/b") as node, caller_of(node) as caller:
        await make_topic(caller, "t", 1, cleanup__policy="compact", **KEYS)
        partition = node.broker.data.replicas.partition("t", 0)
        fill(node, partition)
        dirs, old, now_ms = (
            node.broker.data.replicas._dirs,
            partition.log,
            node.broker.clock.now_ms(),
        )
        (other,) = (d for d in dirs.directories if d is not old.log_dir)

        class Moving(ThreadCompactor):
            async def _steps(self, job, bytes_per_s):  # type: ignore[no-untyped-def]
                async for one in super()._steps(job, bytes_per_s):
                    if partition.log is old:
                        future = dirs.open_future(old, other, now_ms)
                        while data := old.reader.read_bytes(
                            future.state.log_end_offset, 500, 1 << 20
                        ):
                            future.appender.append_as_follower(data, now_ms)
                            future.segments.roll(now_ms)
                        dirs.promote(future, old)
                        partition.log = future
                    yield one

        cleaner = Cleaner(node.broker.data.replicas, lambda: node.broker.config, Moving(disk))
        assert not await cleaner.clean_one()
        assert partition.log is not old and partition.offline is None
        assert not other.failed and partition.log.state.dead is None
        assert not [name for name in disk.list(old.state.directory) if ".cleaned" in name]
        assert await cleaner.clean_one()
        assert held(partition) == {b"k%d" % k: b"19" for k in range(5)}
