"""Reads that wait for the disk run in threads, so requests of other clients do not wait for them.

A disk reports which files are cold, and a gate in it makes "waiting for the disk" last as long as a
test needs, since pages that are really dropped from the page cache may be back at the next read.
The tests assert which clients are answered in that time, never how fast.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing
from nodes import Caller, caller_of, make_topic, running_node, trio_test

from pk.core.log.disk import RealDisk, RealFile
from pk.core.log.non_blocking import WouldBlock, reads
from pk.core.record.batch import iter_headers
from pk.core.record.build import build_batch
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

FETCH = 1
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="RWF_NOWAIT is Linux's")


class GatedFile(RealFile):
    """A file of a disk that reports which files are cold. A read of a cold file waits at the gate
    if it may wait at all, and the file is warm afterwards."""

    def resident(self, position: int, length: int) -> bool:
        assert isinstance(self._disk, GatedDisk)
        return self.path not in self._disk.cold and super().resident(position, length)

    def pread(self, length: int, position: int) -> bytes:
        disk = self._disk
        assert isinstance(disk, GatedDisk)
        in_a_thread = threading.current_thread() is not threading.main_thread()
        if in_a_thread and "/t-0/" in self.path:
            disk.read_in_a_thread.set()
        if self.path in disk.cold:
            if reads.non_blocking:
                raise WouldBlock
            assert in_a_thread, "the loop waits"
            disk.waiting.set()
            assert disk.gate.wait(60)
            disk.cold -= {self.path}
        return super().pread(length, position)


class GatedDisk(RealDisk):
    def __init__(self) -> None:
        super().__init__()
        self.cold: frozenset[str] = frozenset()
        self.gate = threading.Event()
        self.waiting = threading.Event()
        self.read_in_a_thread = threading.Event()

    def open(self, path: str) -> RealFile:
        return GatedFile(self, path)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory on a disk: the kernel may refuse to say what of a tmpfs is in memory."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("PK_TEST_DISK", "/var/tmp")) as path:
        yield Path(path)


def files_of(directory: Path) -> list[Path]:
    """Those of segments, which stay; a checkpoint is written under another name and renamed."""
    return list(directory.glob("t-0/[0-9]*"))


def request(value: bytes, topic: str) -> ProduceRequest:
    data = build_batch([(int(time.time() * 1000), None, value, ())])
    return ProduceRequest(
        acks=-1,
        timeout_ms=60_000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=0, records=data)]
            )
        ],
    )


async def produce(caller: Caller, value: bytes, topic: str) -> None:
    answer = await caller.call(request(value, topic), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


def fetch_request(offset: int, topic: str = "t", wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 16)
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[partition])]
    )


@pytest.mark.parametrize("wait_ms", [0, 10_000])
def test_others_are_answered_while_a_cold_read_waits(directory: Path, wait_ms: int) -> None:
    @trio_test
    async def run() -> None:
        disk = GatedDisk()
        async with (
            running_node(disk, directory=str(directory)) as node,
            caller_of(node) as reader,
            caller_of(node) as other,
        ):
            await make_topic(reader, "t", segment__bytes=str(1 << 20))
            await make_topic(other, "other")
            for n in range(40):
                await produce(reader, bytes([n]) * 100_000, "t")
            # The first read of the old segments' indexes runs in a thread. After that, reads of
            # warm files stay on the loop.
            for offset in (3, 15, 3, 15):
                await reader.call(fetch_request(offset), 11)
            disk.read_in_a_thread.clear()
            fetched = await reader.call(fetch_request(15), 11)
            assert fetched.responses[0].partitions[0].records
            assert not disk.read_in_a_thread.is_set(), "what is in the page cache needs no thread"
            disk.cold = frozenset(map(str, files_of(directory)))
            await reader.send(fetch_request(3, wait_ms=wait_ms), 11)
            assert await trio.to_thread.run_sync(disk.waiting.wait, 60), "nothing was cold"
            for n in range(20):
                await produce(other, b"x", "other")
                answer = await other.call(fetch_request(n, "other"), 11)
                assert answer.responses[0].partitions[0].high_watermark == n + 1
            disk.gate.set()
            fetched = await reader.receive(FETCH, 11)
            data = fetched.responses[0].partitions[0].records
            assert next(iter_headers(data))[1].base_offset == 3

    run()


def test_a_fetch_that_waited_reads_what_is_cold_in_a_thread(directory: Path) -> None:
    """Other clients, including the producer, are answered in that time."""

    @trio_test
    async def run() -> None:
        disk = GatedDisk()
        async with (
            running_node(disk, directory=str(directory)) as node,
            caller_of(node) as reader,
            caller_of(node) as other,
        ):
            await make_topic(reader, "t", index__interval__bytes="1")
            await produce(other, b"before", "t")
            await reader.send(fetch_request(1, wait_ms=60_000), 11)
            while not node.broker.purgatory.size:
                await trio.testing.wait_all_tasks_blocked()
            disk.cold = frozenset(map(str, files_of(directory)))
            await produce(other, b"x" * 60_000, "t")
            assert await trio.to_thread.run_sync(disk.waiting.wait, 60), "nothing was cold"
            await produce(other, b"after", "t")
            disk.gate.set()
            fetched = await reader.receive(FETCH, 11)
            data = fetched.responses[0].partitions[0].records
            assert next(iter_headers(data))[1].base_offset == 1

    run()
