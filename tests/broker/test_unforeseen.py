"""An unforeseen error at one log: that log is left alone and the operator warned once; the broker
and its other logs go on."""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest
from broker.cluster import Member, running_cluster
from group.brokers import simulated
from log.compaction.support import ALWAYS, put, small_log
from log.support import NOW
from msgspec.structs import replace
from nodes import caller_of, make_topic, running_node, trio_test

from pk.core.broker.replication.partition import Partition
from pk.core.broker.upkeep.cleaner import Cleaner, CompactorLost, ThreadCompactor
from pk.core.broker.upkeep.retention import LogRetention
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.compaction.job import cleanable, make_job
from pk.core.log.disk import RealDisk
from pk.core.log.files import Stamp
from pk.core.log.memory_disk import MemoryDisk, Operation
from pk.core.log.segment import LOG, file_name
from pk.core.record.build import build_batch
from pk.net.compactor import InProcess
from pk.net.node import Node

COMPACTED = {"cleanup__policy": "compact", "min__cleanable__dirty__ratio": "0.01"}
SHORT = {"retention__ms": "1000"}


class OddDisk(MemoryDisk):
    """Meets with something that is no failure of a disk, wherever a path holds `odd`."""

    odd = ""

    def __init__(self) -> None:
        super().__init__()
        self.fail_next("make", suffix="no such path")  # so that it checks what is due

    def fault(self, operation: Operation, path: str):  # type: ignore[no-untyped-def]
        if self.odd and self.odd in path and operation in ("read", "write"):
            raise ArithmeticError("odd")
        return super().fault(operation, path)

    def stamp(self, path: str) -> Stamp:
        self.check_read(path)
        return super().stamp(path)


def fill(node: Node, topic: str) -> Partition:
    """Four segments of old records, the last of them active."""
    partition = node.broker.data.replicas.partition(topic, 0)
    now_ms = node.broker.clock.now_ms()
    for i in range(4):
        if i:
            partition.log.segments.roll(now_ms)
        partition.append(build_batch([(now_ms - 5000, b"k", b"%d" % i, ())]), now_ms=now_ms)
    return partition


def tracebacks(caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    return (r.getMessage() for r in caplog.records if r.exc_info and "odd" in str(r.exc_info[1]))


def test_a_log_that_cannot_be_compacted_is_set_aside(caplog: pytest.LogCaptureFixture) -> None:
    @trio_test
    async def run() -> None:
        disk = OddDisk()
        async with running_node(disk) as node, caller_of(node) as caller:
            await make_topic(caller, "bad", 1, **COMPACTED)
            await make_topic(caller, "good", 1, **COMPACTED)
            bad, good = fill(node, "bad"), fill(node, "good")
            disk.odd = "/bad-0/00000000000000000001.log"
            cleaner = Cleaner(
                node.broker.data.replicas, lambda: node.broker.config, ThreadCompactor(disk)
            )
            done = [await cleaner.clean_one() for _ in range(4)]
            assert done.count(True) == 1 and not any(done[2:])
            assert good.log.segments.first_dirty_offset == 3
            assert bad.log.segments.first_dirty_offset is None and bad.offline is None
            disk.odd = ""
            assert len(list(tracebacks(caplog))) == 1

    run()


def test_what_cannot_be_looked_at_is_set_aside_too(caplog: pytest.LogCaptureFixture) -> None:
    @trio_test
    async def run() -> None:
        disk = OddDisk()
        keys = {"min__compaction__lag__ms": "1", **COMPACTED}
        async with running_node(disk) as node, caller_of(node) as caller:
            for name in ("bad", "good"):
                await make_topic(caller, name, 1, **keys)
                fill(node, name)
        async with running_node(disk) as node:
            disk.odd = "/bad-0/00000000000000000000.timeindex"
            cleaner = Cleaner(
                node.broker.data.replicas, lambda: node.broker.config, ThreadCompactor(disk)
            )
            assert [await cleaner.clean_one() for _ in range(3)] == [True, False, False]
            assert (
                node.broker.data.replicas.partition("good", 0).log.segments.first_dirty_offset == 3
            )
            disk.odd = ""
            assert len(list(tracebacks(caplog))) == 1

    run()


@trio_test
async def test_a_process_tells_what_nobody_foresaw_from_its_own_death() -> None:
    log = small_log(MemoryDisk())
    for _ in range(2):
        put(log, ("a", "1"))
        log.segments.roll(NOW)
    found = cleanable(log, ALWAYS, log.state.log_end_offset, NOW)
    assert found is not None
    odd = replace(make_job(log, found, ALWAYS, NOW, 1000), now_ms="now")  # type: ignore[arg-type]
    with TemporaryDirectory() as directory:
        for part in odd.parts:
            name = file_name(part.base_offset, LOG)
            RealDisk().write(
                f"{directory}/{name}", log.state.disk.read(f"{log.state.directory}/{name}")
            )
        with pytest.raises(KafkaError, match="TypeError"):
            async with InProcess().run(replace(odd, directory=directory), 1e9) as steps:
                async for _ in steps:
                    pass


@trio_test
async def test_a_log_whose_round_is_given_up_comes_after_the_others() -> None:
    disk = MemoryDisk()
    lost: list[str] = []

    class Losing(ThreadCompactor):
        async def _steps(self, job, bytes_per_s):  # type: ignore[no-untyped-def]
            if job.directory.endswith("/dirtiest-0"):
                lost.append(job.directory)
                raise CompactorLost("killed")
            async for step in super()._steps(job, bytes_per_s):
                yield step

    async with running_node(disk) as node, caller_of(node) as caller:
        for name in ("dirtiest", "other"):
            await make_topic(caller, name, 1, **COMPACTED)
            fill(node, name)
        other = node.broker.data.replicas.partition("other", 0)
        other.log.segments.first_dirty_offset = 1
        cleaner = Cleaner(node.broker.data.replicas, lambda: node.broker.config, Losing(disk))
        assert [await cleaner.clean_one() for _ in range(3)] == [False, True, False]
        assert len(lost) == 2 and other.log.segments.first_dirty_offset == 3


def test_retention_passes_a_log_by(caplog: pytest.LogCaptureFixture) -> None:
    @trio_test
    async def run() -> None:
        disk = OddDisk()
        async with running_node(disk) as node, caller_of(node) as caller:
            for name in ("bad", "good"):
                await make_topic(caller, name, 1, **SHORT)
                fill(node, name)
        async with running_node(disk) as node:
            disk.odd = "/bad-0/00000000000000000000.timeindex"
            retainer = LogRetention(node.broker.data.replicas, node.broker.config)
            await retainer.check()
            await retainer.check()
            assert node.broker.data.replicas.partition("good", 0).log.state.log_start_offset == 4
            assert node.broker.data.replicas.partition("bad", 0).log.state.log_start_offset == 0
            assert len(list(tracebacks(caplog))) == 1
            disk.odd = ""
            await retainer.check()
            assert node.broker.data.replicas.partition("bad", 0).log.state.log_start_offset == 4

    run()


def test_a_log_that_cannot_be_opened_is_offline_and_the_others_serve(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @trio_test
    async def run() -> None:
        disk = OddDisk()
        async with running_node(disk) as node, caller_of(node) as caller:
            for name in ("bad", "good"):
                await make_topic(caller, name, 1)
                fill(node, name)
        disk.odd = "/bad-0"
        async with running_node(disk) as node, caller_of(node) as caller:
            assert node.broker.data.replicas.partition("good", 0).log.state.log_end_offset == 4
            with pytest.raises(KafkaError) as raised:
                node.broker.data.replicas.partition("bad", 0)
            assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            assert len(list(tracebacks(caplog))) == 1
            disk.odd = ""
            await make_topic(caller, "another", 1)  # an image comes, and with it another try
            assert node.broker.data.replicas.partition("bad", 0).log.state.log_end_offset == 4

    run()


def test_a_follower_goes_on_with_its_other_partitions(caplog: pytest.LogCaptureFixture) -> None:
    @simulated
    async def run() -> None:
        disk = OddDisk()
        async with running_cluster(brokers=0) as cluster:
            cluster._members[2] = Member(2, disk)
            for node in (1, 2):
                await cluster.start(node)
            for name in ("bad", "good"):
                await cluster.create(1, 2, topic=name)
            assert await cluster.produce(1, b"a", topic="bad") == ErrorCode.NONE
            disk.odd = "/bad-0/00000000000000000000.log"
            await cluster.produce(1, b"b", topic="bad", acks=1)
            for value in (b"a", b"b"):
                assert await cluster.produce(1, value, topic="good") == ErrorCode.NONE
            assert cluster.partition(2, "bad").log.state.log_end_offset == 1
            assert len(list(tracebacks(caplog))) == 1
            disk.odd = ""
            await cluster.produce(1, b"c", topic="good")
            assert cluster.partition(2, "bad").log.state.log_end_offset == 1, "in this leader epoch"
            await cluster.change("bad", leader=1)
            await cluster.until(lambda: cluster.partition(2, "bad").log.state.log_end_offset == 2)

    run()
