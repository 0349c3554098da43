"""Disks that fail, fill and stall below a running broker; group commit."""

import errno
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from nodes import (
    Caller,
    caller_of,
    config_of,
    controller_of,
    make_topic,
    running_node,
    trio_test,
)

from pk.core.broker.coordinator.coordinator_shard import State
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.failures import LogDirBroken
from pk.core.log.memory_disk import MemoryDisk, MemoryFile
from pk.core.record.batch import iter_headers, records
from pk.core.record.build import build_batch
from pk.core.values import OFFSETS_TOPIC
from pk.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pk.net.endpoints import StartError
from pk.net.node import Node, run_node

PRODUCE = 0
STORAGE = ErrorCode.KAFKA_STORAGE_ERROR


class GatedFile(MemoryFile):
    """A file whose syncs can be held."""

    def sync(self) -> None:
        disk = self._disk
        assert isinstance(disk, GatedDisk)
        if self.path.endswith(".log") and disk.gated in self.path:
            disk.syncs += 1
            assert disk.gate.wait(60)
        super().sync()


class GatedDisk(MemoryDisk):
    """A disk that holds the syncs of logs named `gated` while its gate is shut."""

    def __init__(self) -> None:
        super().__init__()
        self.gated = "/t-0/"
        self.gate = threading.Event()
        self.gate.set()
        self.syncs = 0

    def open(self, path: str) -> MemoryFile:
        return GatedFile(self, path)


def request(
    value: bytes, topic: str = "t", acks: int = -1, timeout_ms: int = 60_000
) -> ProduceRequest:
    data = build_batch([(int(time.time() * 1000), None, value, ())])
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=0, records=data)]
            )
        ],
    )


async def until(condition: Callable[[], bool]) -> None:
    """Let everybody go on until it holds."""
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 (threads change it, without an event)
            await trio.sleep(0.005)


async def produce(caller: Caller, value: bytes, topic: str = "t", acks: int = -1) -> int:
    answer = await caller.call(request(value, topic, acks), 9)
    return answer.responses[0].partition_responses[0].error_code


async def values_of(caller: Caller, topic: str = "t") -> list[bytes | None]:
    answer = await caller.call(
        FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)],
                )
            ],
        ),
        11,
    )
    data = answer.responses[0].partitions[0].records
    return [
        record.value
        for position, header in iter_headers(data or b"")
        for record in records(data[position : position + header.size], header)
    ]


@asynccontextmanager
async def five_callers(node: Node) -> AsyncIterator[list[Caller]]:
    async with (
        caller_of(node) as a,
        caller_of(node) as b,
        caller_of(node) as c,
        caller_of(node) as d,
        caller_of(node) as e,
    ):
        yield [a, b, c, d, e]


# --- group commit ---


@pytest.mark.parametrize("acks", [-1, 1])
def test_one_sync_serves_all_who_wait(acks: int) -> None:
    @trio_test
    async def run() -> None:
        disk = GatedDisk()
        async with running_node(disk) as node, five_callers(node) as callers:
            await make_topic(callers[0], "t", flush__messages="1")
            log = node.broker.data.replicas.partition("t", 0).log
            disk.gate.clear()
            await callers[0].send(request(b"0", acks=acks), 9)
            await until(lambda: disk.syncs > 0)
            for n, caller in enumerate(callers[1:], 1):
                await caller.send(request(b"%d" % n, acks=acks), 9)
            await until(lambda: log.state.log_end_offset >= 5)
            assert await values_of_new(node) == [], "seen before it is synced"
            begun = disk.syncs
            disk.gate.set()
            for caller in callers:
                answer = await caller.receive(PRODUCE, 9)
                assert answer.responses[0].partition_responses[0].error_code == 0
            assert log.durability.recovery_point == 5
            assert disk.syncs - begun < 4 * begun, "a sync for every produce"
            assert len(await values_of(callers[0])) == 5

    run()


async def values_of_new(node: Node) -> list[bytes | None]:
    async with caller_of(node) as caller:
        return await values_of(caller)


@trio_test
async def test_a_produce_that_waits_for_a_sync_may_time_out() -> None:
    disk = GatedDisk()
    async with running_node(disk) as node, caller_of(node) as caller:
        await make_topic(caller, "t", flush__messages="1")
        disk.gate.clear()
        answer = await caller.call(request(b"x", timeout_ms=50), 9)
        code = answer.responses[0].partition_responses[0].error_code
        assert code == ErrorCode.REQUEST_TIMED_OUT
        disk.gate.set()
        assert await produce(caller, b"y") == 0
        assert await values_of(caller) == [b"x", b"y"]


@trio_test
async def test_flush_ms_is_kept_after_a_pause() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t", flush__ms="20")
        log = node.broker.data.replicas.partition("t", 0).log
        for count in (1, 2):
            assert await produce(caller, b"x") == 0
            with trio.fail_after(60):
                await until(lambda count=count: log.durability.recovery_point >= count)


@trio_test
async def test_a_topic_deleted_during_a_sync() -> None:
    disk = GatedDisk()
    async with running_node(disk) as node, five_callers(node) as (a, b, *_):
        await make_topic(a, "t", flush__messages="1")
        disk.gate.clear()
        await a.send(request(b"x"), 9)
        await until(lambda: disk.syncs > 0)
        delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=60_000)
        await b.send(delete, 6)
        answer = await a.receive(PRODUCE, 9)
        code = answer.responses[0].partition_responses[0].error_code
        assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        disk.gate.set()
        assert (await b.receive(20, 6)).responses[0].error_code == 0
        await make_topic(a, "t")
        assert await produce(a, b"new") == 0
        assert await values_of(a) == [b"new"]


# --- disks that fail ---


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_failing_sync_takes_its_directory_out_of_service(acks: int) -> None:
    @trio_test
    async def run() -> None:
        disk = MemoryDisk()
        async with running_node(disk, log__dirs="/a,/b") as node, caller_of(node) as caller:
            for name in ("one", "two", "three"):
                await make_topic(caller, name, flush__messages="1")
            replicas = node.broker.data.replicas
            there = {
                name: replicas.partition(name, 0).log.log_dir.path
                for name in ("one", "two", "three")
            }
            assert set(there.values()) == {"/a", "/b"}
            in_b = [name for name, path in there.items() if path == "/b"]
            in_a = [name for name, path in there.items() if path == "/a"]
            disk.fail_next("sync", suffix=f"{in_b[0]}-0/00000000000000000000.log")
            assert await produce(caller, b"lost", in_b[0], acks) == STORAGE
            for name in in_b:
                assert await produce(caller, b"again", name, acks) == STORAGE
            for name in in_a:
                assert await produce(caller, b"safe", name, acks) == 0
            await make_topic(caller, "four", flush__messages="1")
            assert replicas.partition("four", 0).log.log_dir.path == "/a"
            assert await produce(caller, b"x", "four", acks) == 0

    run()


@trio_test
async def test_the_broker_stops_when_every_directory_failed() -> None:
    disk = MemoryDisk()
    reason: LogDirBroken | None = None

    async def use(node: Node) -> None:
        async with caller_of(node) as caller:
            await make_topic(caller, "t", flush__messages="1")
            disk.fail_next("sync", suffix="/t-0/00000000000000000000.log")
            await caller.send(request(b"lost"), 9)
            await trio.sleep_forever()

    try:
        async with trio.open_nursery() as nursery:
            await run_node(config_of(), disk=disk, ready=lambda n: nursery.start_soon(use, n))
    except* LogDirBroken as group:
        reason = group.exceptions[0]  # type: ignore[assignment]
    assert reason is not None
    assert "every log directory has failed" in str(reason) and "/data" in str(reason)
    assert not disk.exists("/data/.kafka_cleanshutdown")
    disk.crash()
    async with running_node(disk) as node, caller_of(node) as caller:
        assert await produce(caller, b"after") == 0


@trio_test
async def test_a_full_disk_refuses_one_produce_and_goes_on() -> None:
    disk = MemoryDisk()
    async with running_node(disk) as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        assert await produce(caller, b"before") == 0
        disk.fail_next("write", errno.ENOSPC, suffix="/t-0/00000000000000000000.log", after_bytes=9)
        assert await produce(caller, b"no room") == STORAGE
        assert await produce(caller, b"after") == 0
        assert await values_of(caller) == [b"before", b"after"]


@trio_test
async def test_a_log_that_cannot_be_made_is_offline_alone_until_there_is_room() -> None:
    disk = MemoryDisk()
    async with running_node(disk) as node, caller_of(node) as caller:
        disk.fail_next("write", errno.ENOSPC, suffix="/full-0/partition.metadata.tmp")
        await make_topic(caller, "full")
        assert await produce(caller, b"x", "full") == STORAGE
        await make_topic(caller, "other")
        assert await produce(caller, b"x", "other") == 0
        assert await produce(caller, b"x", "full") == 0, "tried again with the next image"


@trio_test
async def test_a_coordinator_comes_with_its_log_when_there_is_room_again() -> None:
    disk = MemoryDisk()
    disk.fail_next("write", errno.ENOSPC, suffix=f"/{OFFSETS_TOPIC}-0/partition.metadata.tmp")
    one = {"offsets__topic__num__partitions": "1"}
    async with running_node(disk, **one) as node, caller_of(node) as caller:
        await make_topic(caller, OFFSETS_TOPIC)
        with pytest.raises(KafkaError) as raised:
            node.broker.groups.coordinators.coordinator("group")
        assert raised.value.code == ErrorCode.NOT_COORDINATOR
        await make_topic(caller, "other")
        coordinator = node.broker.groups.coordinators.coordinator("group")
        while coordinator.state is State.LOADING:
            await trio.lowlevel.checkpoint()
        assert coordinator.is_active


@trio_test
async def test_a_log_of_a_failed_directory_is_not_started_again_in_another() -> None:
    disk = MemoryDisk()
    async with running_node(disk, log__dirs="/a,/b") as node, caller_of(node) as caller:
        names = ("one", "two")
        for name in names:
            await make_topic(caller, name)
            assert await produce(caller, b"x", name) == 0
        there = {node.broker.data.replicas.partition(n, 0).log.log_dir.path: n for n in names}
    broken = BrokenDirectory(disk, "/b")
    async with running_node(broken, log__dirs="/a,/b") as node, caller_of(node) as caller:
        assert await values_of(caller, there["/a"]) == [b"x"]
        for _ in range(2):
            assert await produce(caller, b"y", there["/b"]) == STORAGE
            await make_topic(caller, f"new{_}")
        assert await produce(caller, b"y", "new1") == 0
    async with running_node(disk, log__dirs="/a,/b") as node, caller_of(node) as caller:
        assert await values_of(caller, there["/b"]) == [b"x"]


class BrokenDirectory(MemoryDisk):
    """Another disk of which one directory fails."""

    def __init__(self, disk: MemoryDisk, path: str) -> None:
        super().__init__()
        self._root, self._locks, self._broken = disk._root, disk._locks, path

    def make(self, path: str) -> None:
        if path.startswith(self._broken):
            raise OSError(errno.EIO, "the disk is broken", path)
        super().make(path)


@trio_test
async def test_no_empty_metadata_log_is_begun_while_its_directory_is_broken() -> None:
    disk = MemoryDisk()
    async with running_node(disk, log__dirs="/a,/b") as node, caller_of(node) as caller:
        for name in ("one", "two"):
            await make_topic(caller, name)
    before = sorted(disk.list("/b"))
    with pytest.raises(
        StartError, match=r"no working log directory has the metadata log; it may be in .*/a"
    ):
        await run_node(
            config_of(log__dirs="/a,/b"), disk=BrokenDirectory(disk, "/a"), ready=lambda n: n.stop()
        )
    assert sorted(disk.list("/b")) == [
        name for name in before if name not in (".kafka_cleanshutdown", ".pk_closed")
    ]
    async with running_node(disk, log__dirs="/b,/a") as node, caller_of(node) as caller:
        assert await produce(caller, b"x", "one") == 0, "found wherever it lies"


@trio_test
async def test_the_broker_stops_when_the_metadata_log_failed() -> None:
    disk = MemoryDisk()
    reason = ""

    async def use(node: Node) -> None:
        async with caller_of(node) as caller:
            await make_topic(caller, "t")
            disk.fail_next("sync", suffix="__cluster_metadata-0/00000000000000000000.log")
            topic = CreatableTopic(name="u", num_partitions=1, replication_factor=1)
            await caller.send(CreateTopicsRequest(topics=[topic]), 7)
            await trio.sleep_forever()

    try:
        async with trio.open_nursery() as nursery:
            await run_node(config_of(), disk=disk, ready=lambda n: nursery.start_soon(use, n))
    except* LogDirBroken as group:
        reason = str(group.exceptions[0])
    assert "the metadata log failed" in reason
    async with running_node(disk) as node, caller_of(node) as caller:
        assert await produce(caller, b"x") == 0


# --- images ---


def made_again(node: Node, topic_id: bytes) -> bool:
    assert node.broker.cluster.controller is not None
    topic = controller_of(node.broker).image.topics.get("t")
    return topic is not None and topic.topic_id != topic_id


@trio_test
async def test_a_topic_deleted_and_made_again_in_one_image_begins_empty() -> None:
    disk = MemoryDisk()
    async with running_node(disk) as node, five_callers(node) as (a, b, *_):
        await make_topic(a, "t")
        assert await produce(a, b"old") == 0
        before = node.broker.image
        lock = node.broker._publishing
        async with lock:
            delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=60_000)
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            # The broker is kept from reacting, so that all decisions until then reach it as one
            # image.
            other = CreatableTopic(name="other", num_partitions=1, replication_factor=1)
            await a.send(CreateTopicsRequest(topics=[other], timeout_ms=60_000), 7)
            await until(lambda: "other" in controller_of(node.broker).image.topics)
            await b.send(delete, 6)
            await until(lambda: "t" not in controller_of(node.broker).image.topics)
            async with caller_of(node) as c:
                await c.send(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7)
                await until(lambda: made_again(node, before.topics["t"].topic_id))
                lock.release()
                assert (await a.receive(19, 7)).topics[0].error_code == 0
                assert (await b.receive(20, 6)).responses[0].error_code == 0
                assert (await c.receive(19, 7)).topics[0].error_code == 0
            await lock.acquire()
        assert node.broker.image.topics["t"].topic_id != before.topics["t"].topic_id
        assert await values_of(a) == []
        assert await produce(a, b"new") == 0
    async with running_node(disk) as node, caller_of(node) as caller:
        assert await values_of(caller) == [b"new"]


class WatchedDisk(MemoryDisk):
    """A disk that notes which snapshots of producers are read, and in which thread."""

    def __init__(self) -> None:
        super().__init__()
        self.read_by: dict[str, threading.Thread] = {}

    def read(self, path: str) -> bytes:
        if path.endswith(".snapshot"):
            self.read_by[path.split("/")[-2]] = threading.current_thread()
        return super().read(path)


@trio_test
async def test_a_large_state_of_producers_is_read_off_the_loop_a_small_one_when_used() -> None:
    disk = WatchedDisk()
    async with running_node(disk) as node, caller_of(node) as caller:
        for topic, producers in (("many", 1000), ("few", 2)):
            await make_topic(caller, topic)
            partition = node.broker.data.replicas.partition(topic, 0)
            for producer_id in range(producers):
                batch = build_batch([(0, None, b"v", ())], 0, -1, producer_id, 0, 0)
                partition.append(batch, now_ms=node.broker.clock.now_ms())
    disk.read_by.clear()
    async with running_node(disk) as node:
        assert list(disk.read_by) == ["many-0"]
        assert disk.read_by["many-0"] is not threading.main_thread()
        for topic, producers in (("many", 1000), ("few", 2)):
            assert (
                len(node.broker.data.replicas.partition(topic, 0).log.state.producers) == producers
            )
