"""A read that fails because the disk does takes its log directory offline, for any reader; the
others go on serving."""

import errno
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from nodes import Caller, caller_of, make_topic, running_node, trio_test

from pk.core.broker.replication.partition import Partition
from pk.core.broker.upkeep.cleaner import Cleaner, ThreadCompactor
from pk.core.broker.upkeep.retention import LogRetention
from pk.core.errors import ErrorCode
from pk.core.log.disk import RealDisk, RealFile
from pk.core.log.file_slices import FileSlice
from pk.core.log.memory_disk import MemoryDisk
from pk.core.record.build import build_batch, end_transaction_batch
from pk.core.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pk.net.node import Node
from pk.net.transport import SocketTransport

STORAGE = ErrorCode.KAFKA_STORAGE_ERROR
OTHER = "other"
"""A topic in the directory that works."""


def now_ms() -> int:
    return int(time.time() * 1000)


def append(partition: Partition, producer_id: int = -1, sequence: int = -1) -> None:
    """A record, of a transaction if it has a producer."""
    epoch = 0 if producer_id >= 0 else -1
    partition.append(
        build_batch(
            [(now_ms(), b"k", b"v" * 100, ())],
            0,
            -1,
            producer_id,
            epoch,
            sequence,
            transactional=producer_id >= 0,
        ),
        now_ms=now_ms(),
    )


@asynccontextmanager
async def two_directories(
    **configs: Any,
) -> AsyncIterator[tuple[MemoryDisk, Node, Caller, Partition]]:
    """A node that was started again, with a topic `t` of three segments, nothing of which is in
    memory, in one directory and `OTHER` in the other."""
    disk, keys = MemoryDisk(), {"log__dirs": "/a,/b"}
    async with running_node(disk, **keys) as node, caller_of(node) as caller:
        await make_topic(caller, "t", **configs)
        await make_topic(caller, OTHER)
        partition = node.broker.data.replicas.partition("t", 0)
        assert (
            partition.log.log_dir is not node.broker.data.replicas.partition(OTHER, 0).log.log_dir
        )
        for n in range(3):
            append(partition, 7, n)
            partition.append(end_transaction_batch(False, 0, 7, 0, now_ms()), now_ms=now_ms())
            if n < 2:
                partition.log.segments.roll(now_ms())
        append(node.broker.data.replicas.partition(OTHER, 0))
    async with running_node(disk, **keys) as node, caller_of(node) as caller:
        yield disk, node, caller, node.broker.data.replicas.partition("t", 0)


async def fetch(
    caller: Caller, topic: str = "t", offset: int = 0, version: int = 11, committed: bool = False
) -> int:
    """The error code of a fetch."""
    wish = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=int(committed),
        topics=[FetchTopic(topic=topic, partitions=[wish])],
    )
    answer = await caller.call(request, version)
    return answer.responses[0].partitions[0].error_code


async def list_offset(caller: Caller, timestamp: int) -> int:
    wish = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[wish])])
    answer = await caller.call(request, 7)
    return answer.topics[0].partitions[0].error_code


async def describe_producers(caller: Caller) -> int:
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    answer = await caller.call(request, 0)
    return answer.topics[0].partitions[0].error_code


async def is_offline(node: Node, partition: Partition) -> None:
    """Wait until it is, and nothing else."""
    await node.broker.purgatory.until(
        lambda: partition.offline is not None, (partition,), trio.current_time() + 30
    )
    assert partition.offline is not None
    assert [
        d.failed for d in node.broker.data.replicas.directories if d is partition.log.log_dir
    ] == [True]
    assert len(node.broker.data.replicas.failures.offline_directories) == 1


READERS: dict[str, tuple[str, Callable[[Caller], Awaitable[int]]]] = {
    "records": (".log", fetch),
    "records for an old client": (".log", lambda caller: fetch(caller, version=9)),
    "the offset index": (".index", lambda caller: fetch(caller, offset=1)),
    "the time index": (".timeindex", lambda caller: list_offset(caller, 1)),
    "the latest time": (".timeindex", lambda caller: list_offset(caller, -3)),
    "aborted transactions": (".txnindex", lambda caller: fetch(caller, committed=True)),
    "a snapshot of producers": (".snapshot", describe_producers),
    "producers, for the last stable offset": (".snapshot", fetch),
}


@pytest.mark.parametrize("what", READERS)
def test_a_failing_read_takes_its_directory_offline(what: str) -> None:
    suffix, ask = READERS[what]

    @trio_test
    async def run() -> None:
        async with two_directories() as (disk, node, caller, partition):
            if suffix == ".index":  # a memory disk's are looked at once it has entries
                partition.log.state.segments[0]._index_proved = False
                partition.log.state.segments[0].index._written = 1
            disk.fail_next("read", suffix=suffix, times=100)
            assert await ask(caller) == STORAGE
            await is_offline(node, partition)
            disk.heal()
            assert await fetch(caller) == STORAGE, "what was offline stays so"
            assert await fetch(caller, OTHER) == 0

    run()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM, errno.ENOENT])
def test_what_is_not_the_disks_fault_takes_nothing_offline(code: int) -> None:
    @trio_test
    async def run() -> None:
        for suffix, ask in (READERS["records"], READERS["a snapshot of producers"]):
            async with two_directories() as (disk, node, caller, partition):
                disk.fail_next("read", code, suffix=suffix)
                await ask(caller)
                assert await ask(caller) == await fetch(caller) == 0
                append(partition)
                assert node.broker.data.replicas.failures.offline_directories == []

    run()


@trio_test
async def test_retention_and_compaction_find_a_failing_disk_as_well() -> None:
    for suffix, policy in ((".timeindex", "delete"), (".log", "compact")):
        lag = {"min__compaction__lag__ms": "1"} if policy == "compact" else {}
        configs = {"cleanup__policy": policy, "retention__ms": "1", **lag}
        async with two_directories(**configs) as (disk, node, caller, partition):
            replicas, config = node.broker.data.replicas, node.broker.config
            disk.fail_next("read", suffix=f"/t-0/{0:020d}{suffix}", times=100)
            if policy == "delete":
                await LogRetention(replicas, config).check()
            else:
                await Cleaner(replicas, lambda c=config: c, ThreadCompactor(disk)).clean_one()
            await is_offline(node, partition)
            assert await fetch(caller, OTHER) == 0


@trio_test
async def test_a_log_that_is_moved_and_cannot_be_read_fails_its_directory_alone() -> None:
    async with two_directories() as (disk, node, caller, partition):
        disk.fail_next("read", suffix=f"/t-0/{0:020d}.log", times=100)
        there = next(
            d for d in node.broker.data.replicas.directories if d is not partition.log.log_dir
        )
        node.broker.data.alter_log_dirs.move("t", 0, there.path)
        await is_offline(node, partition)
        disk.heal()
        assert await fetch(caller, OTHER) == 0


@trio_test
async def test_a_log_that_cannot_be_recovered_fails_its_directory_alone() -> None:
    disk, keys = MemoryDisk(), {"log__dirs": "/a,/b"}
    async with running_node(disk, **keys) as node, caller_of(node) as caller:
        for name in ("t", OTHER):
            await make_topic(caller, name)
            append(node.broker.data.replicas.partition(name, 0))
        path = node.broker.data.replicas.partition("t", 0).log.log_dir.path
    disk.remove(f"{path}/.kafka_cleanshutdown")
    disk.fail_next("read", suffix="/t-0/00000000000000000000.log", times=1000)
    async with running_node(disk, **keys) as node, caller_of(node) as caller:
        assert await fetch(caller) == STORAGE
        assert await fetch(caller, OTHER) == 0
        assert [d.path for d in node.broker.data.replicas.directories if d.failed] == [path]


@trio_test
async def test_a_write_that_the_disk_fails_takes_its_directory_offline_though_it_was_undone() -> (
    None
):
    async with two_directories() as (disk, node, caller, partition):
        name = partition.log.state.segments[-1].file.path
        append(partition)
        disk.fail_next("write", errno.EIO, suffix=name, after_bytes=20)
        with pytest.raises(Exception, match="the disk failed a write"):
            append(partition)
        await is_offline(node, partition)
        assert await fetch(caller, OTHER) == 0


class AlwaysResident(RealFile):
    """A file that is sent without being read first, as one whose pages are in memory is."""

    def resident(self, position: int, length: int) -> bool:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="a file that answers EIO to every read")
@pytest.mark.parametrize("kind", [RealFile, AlwaysResident])
@pytest.mark.parametrize("length", [100, 1 << 20])
def test_a_file_that_fails_while_it_is_sent_is_told_of_and_a_peer_that_is_gone_is_not(
    length: int, kind: type[RealFile], tmp_path: Path
) -> None:
    sound = tmp_path / "sound"
    sound.write_bytes(bytes(length))

    @trio_test
    async def run() -> None:
        disk = RealDisk(read_only=True)
        reported: list[tuple[str, int | None]] = []
        disk.read_failed = lambda path, error: reported.append((path, error.errno))
        for path, due in (("/proc/self/mem", {("/proc/self/mem", errno.EIO)}), (str(sound), set())):
            ours, theirs = socket.socketpair()
            transport = SocketTransport(ours)
            if not due:
                theirs.close()
            with pytest.raises((OSError, trio.BrokenResourceError)):
                await transport.send([FileSlice(kind(disk, path), 0, length)])
            assert set(reported) == due
            reported.clear()
            theirs.close()
            await transport.aclose()

    run()
