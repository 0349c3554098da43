"""Logs that diverge: where they are truncated, when they agree again, and which records are never
lost on the way (KIP-101, KIP-279)."""

import errno
from typing import Any

import pytest
import trio
from broker.cluster import FETCH, PRODUCE_VERSION, Cluster, running_cluster
from group.brokers import simulated

from pk.core.broker.offload import offload
from pk.core.broker.replication import log_reconciler, partition_tasks
from pk.core.broker.replication.truncation import truncation_for
from pk.core.errors import ErrorCode
from pk.core.log.damaged import Damage, Mark
from pk.core.log.failures import StorageError
from pk.core.log.log import Log
from pk.core.meta.events import BROKER, ControllerElected, PartitionChanged
from pk.core.record.batch import iter_headers, read_header
from pk.core.record.build import build_batch
from pk.core.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pk.core.wire.messages.pk_replica_logs import ReplicaLog
from pk.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

NONE = ErrorCode.NONE
LAG = {"replica__lag__time__max__ms": "10000"}
TWO_DIRS = {"log__dirs": "/a,/b"}


async def alone(cluster: Cluster, node: int, *values: bytes) -> None:
    """Have `node` lead and take records that reach no other broker, then lose its leadership
    unnoticed."""
    others = [n for n in cluster._members if n != node]
    cluster.part(*others)
    await cluster.change(leader=node, isr=(node,), lossy=True)
    for value in values:
        assert await cluster.produce(node, value, acks=1) == NONE
    cluster.part(node)


class TestKip101:
    @simulated
    async def test_a_watermark_that_lags_behind_costs_nothing(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"m1")
            await cluster.settled(1, 2)
            assert await cluster.produce(1, b"m2") == NONE
            # 2 has m2, which counts, but has not been told of it; it goes away, comes back, and
            # must lead at once.
            assert cluster.values(2) == [b"m1", b"m2"]
            cluster.part(2)
            cluster.partition(2).high_watermark = 1
            await cluster.stop(2)
            await cluster.crash(1)
            cluster.heal()
            await cluster.start(2)
            assert cluster.partition(2).high_watermark == 1
            await cluster.change(leader=2, isr=(2,), lossy=True)
            assert cluster.values(2) == [b"m1", b"m2"]
            await cluster.start(1)
            await cluster.settled(1, 2)
            assert cluster.values(1) == [b"m1", b"m2"]

    @simulated
    async def test_logs_that_parted_do_not_stay_so(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"m1")
            await cluster.settled(1, 2)
            await alone(cluster, 1, b"x2", b"x3")
            await cluster.change(leader=2, isr=(2,), lossy=True)
            assert await cluster.produce(2, b"m2") == NONE
            cluster.heal()
            await cluster.settled(1, 2)
            assert cluster.values(1) == [b"m1", b"m2"]
            assert cluster.partition(1).log.state.epochs.entries == [(0, 0), (2, 1)]

    @simulated
    async def test_who_was_cut_off_truncates_what_nobody_was_promised(self) -> None:
        async with running_cluster(LAG) as cluster:
            await cluster.create(1, 2, 3, configs={"min.insync.replicas": "2"})
            await cluster.produce(1, b"a")
            cluster.part(1)
            cluster.lagging.add(1)
            assert await cluster.produce(1, b"lost", acks=1) == NONE
            assert await cluster.produce(1, b"never", timeout_ms=500) != NONE
            await cluster.change(leader=2, isr=(2, 3))
            assert await cluster.produce(2, b"b") == NONE
            cluster.heal()
            await trio.sleep(1)
            assert cluster.values(1) == [b"a", b"lost", b"never"], "it still thinks that it leads"
            assert await cluster.produce(1, b"fenced", timeout_ms=500) != NONE
            await cluster.catch_up(1)
            await cluster.settled(1, 2, 3)
            assert cluster.values(1) == [b"a", b"b"]
            await cluster.until(lambda: set(cluster.isr()) == {1, 2, 3})

    @simulated
    async def test_what_was_cut_while_another_partition_was_waited_for_is_not_acknowledged(
        self,
    ) -> None:
        """One request has two partitions. While the first waits, the second gets another leader, is
        truncated, and its watermark passes the offset of the request's record."""
        async with running_cluster() as cluster:
            await cluster.create(1, 3, topic="slow")
            await cluster.create(1, 2)
            cluster.part(2, 3)
            codes: list[int] = []

            async def produce() -> None:
                topics = [
                    TopicProduceData(
                        name=name,
                        partition_data=[
                            PartitionProduceData(
                                index=0, records=build_batch([(0, None, b"lost", ())])
                            )
                        ],
                    )
                    for name in ("slow", "t")
                ]
                request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
                answer = await cluster.ask(1, request, PRODUCE_VERSION)
                codes.extend(topic.partition_responses[0].error_code for topic in answer.responses)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(produce)
                await cluster.until(lambda: cluster.partition(1).log.state.log_end_offset == 1)
                cluster.parted.discard(frozenset((1, 2)))
                await cluster.change(leader=2, isr=(2,), lossy=True)
                assert await cluster.produce(2, b"b", b"c") == NONE
                await cluster.until(lambda: cluster.partition(1).high_watermark == 2)
            assert cluster.values(1) == [b"b", b"c"]
            assert codes == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER]


class TestKip279:
    @pytest.mark.parametrize("fetch_version", [18, 11])
    def test_several_leaders_in_a_row_that_nobody_followed(self, fetch_version: int) -> None:
        """Each of two replicas led several times without the other, so no single answer shows where
        they diverge."""

        @simulated
        async def run() -> None:
            async with running_cluster(brokers=2) as cluster:
                cluster.fetch_version = fetch_version
                await cluster.create(1, 2)
                for i in range(3):
                    await cluster.produce(1, b"both %d" % i)
                await cluster.settled(1, 2)
                await alone(cluster, 1, b"1a", b"1b")
                await alone(cluster, 2, b"2a")
                await alone(cluster, 1, b"1c", b"1d")
                await alone(cluster, 2, b"2b")
                assert len(cluster.values(1)) == 7
                await cluster.change(leader=2, isr=(2,), lossy=True)
                assert await cluster.produce(2, b"last") == NONE
                cluster.heal()
                await cluster.settled(1, 2)
                kept = [b"both 0", b"both 1", b"both 2", b"2a", b"2b", b"last"]
                assert cluster.values(1) == kept

        run()

    @simulated
    async def test_leaderships_in_which_nothing_was_written(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            await cluster.settled(1, 2)
            await alone(cluster, 2)
            await alone(cluster, 1)
            await alone(cluster, 2)
            await cluster.change(leader=1, isr=(1,))
            cluster.heal()
            await cluster.until(lambda: set(cluster.isr()) == {1, 2})
            assert await cluster.produce(1, b"b") == NONE
            await cluster.settled(1, 2)


class TestCutting:
    @simulated
    async def test_producers_are_as_the_log_is(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            sent: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
            assert await cluster.produce(1, b"s0", base_sequence=0, **sent) == NONE
            await cluster.settled(1, 2)
            cluster.part(2)
            assert await cluster.produce(1, b"s1", acks=1, base_sequence=1, **sent) == NONE
            cluster.part(1)
            await cluster.change(leader=2, isr=(2,), lossy=True)
            assert await cluster.produce(2, b"s1 again", base_sequence=1, **sent) == NONE
            cluster.heal()
            await cluster.settled(1, 2)
            await cluster.change(leader=1, isr=(1, 2))
            duplicate = await cluster.produce(1, b"s1 again", base_sequence=1, **sent)
            assert duplicate == NONE
            assert cluster.values(1) == [b"s0", b"s1 again"]
            assert await cluster.produce(1, b"s2", base_sequence=2, **sent) == NONE

    @simulated
    async def test_the_recovery_point_falls_with_the_log(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            for i in range(5):
                await cluster.produce(1, b"%d" % i)
            await cluster.settled(1, 2)
            await alone(cluster, 1, b"x", b"y")
            log = cluster.partition(1).log
            log.durability.flush()
            log.log_dir.write_recovery_points()
            assert log.durability.recovery_point == 7
            await cluster.change(leader=2, isr=(2,), lossy=True)
            cluster.heal()
            await cluster.until(lambda: log.state.log_end_offset == 5)
            noted = log.log_dir.recovery_points
            await cluster.until(lambda: noted[log.state.tp] == 5)
            assert await cluster.produce(2, b"z", acks=1) == NONE
            await cluster.settled(1, 2)
            await cluster.crash(1)
            await cluster.start(1)
            await cluster.settled(1, 2)

    @simulated
    async def test_a_recovery_point_that_fell_is_noted_before_the_next_leader_appends(
        self,
    ) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            await cluster.settled(1, 2)
            await alone(cluster, 1, b"x", b"y")
            log, replicas = cluster.partition(1).log, cluster.broker(1).data.replicas
            log.durability.flush()
            log.log_dir.write_recovery_points()
            off_loop, was_cut, go = replicas.tasks.off_loop, trio.Event(), trio.Event()

            async def slowly(*args: Any) -> None:
                await off_loop(*args)
                was_cut.set()
                await go.wait()

            replicas.tasks.off_loop = slowly  # type: ignore[method-assign]
            await cluster.change(leader=2, isr=(2,), lossy=True)
            cluster.heal()
            await was_cut.wait()
            noted = log.log_dir.recovery_points
            async with trio.open_nursery() as nursery:

                async def lead() -> None:
                    await cluster.change(leader=1, isr=(1,))

                nursery.start_soon(lead)
                await trio.sleep(1)
                assert (cluster.partition(1).leads, noted[log.state.tp]) == (False, 3)
                go.set()
                await cluster.until(lambda: cluster.partition(1).leads, 5)
                assert noted[log.state.tp] == log.durability.recovery_point == 1

    @pytest.mark.thorough
    @pytest.mark.parametrize("room_comes", [True, False])
    def test_a_log_that_was_cut_is_held_until_a_full_disk_has_noted_it(
        self, room_comes: bool
    ) -> None:
        @simulated
        async def run() -> None:
            async with running_cluster(TWO_DIRS, brokers=2) as cluster:
                await cluster.create(1, 2)
                await cluster.produce(1, b"a")
                await cluster.settled(1, 2)
                await alone(cluster, 1, b"x", b"y")
                log, disk = cluster.partition(1).log, cluster.disk(1)
                log.durability.flush()
                log.log_dir.write_recovery_points()
                noted, name = log.log_dir.recovery_points, "recovery-point-offset-checkpoint"
                disk.fail_next("write", errno.ENOSPC, suffix=f"{name}.tmp", times=1000)
                await cluster.change(leader=2, isr=(2,), lossy=True)
                cluster.heal()
                assert await cluster.produce(2, b"b", acks=1) == NONE
                await trio.sleep(10)
                assert log.state.log_end_offset == 1 and noted[log.state.tp] == 3
                if room_comes:
                    disk.heal()
                    await cluster.settled(1, 2)
                    assert noted[log.state.tp] == 1
                    assert f"{log.state.tp.topic} 0 1\n".encode() in disk.read(
                        f"{log.log_dir.path}/{name}"
                    )
                    assert cluster.values(1) == [b"a", b"b"]
                else:
                    await cluster.until(lambda: log.log_dir.failed, 30)
                    assert cluster.partition(1).offline is not None
                    assert log.state.log_end_offset == 1

        run()

    @simulated
    async def test_what_is_about_to_be_cut_is_in_nobody_elses_hands(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another task may run before the first of those that cut: by then all logs are marked."""
        count = 30
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2, partitions=count)
            cluster.part(2)
            for number in range(count):
                assert await cluster.produce(1, b"x", acks=1, number=number) == NONE
            cluster.part(1)
            found = trio.Event()
            calls: list[int] = []

            def reported(*args: Any) -> Any:
                calls.append(args[1])
                if len(calls) == count:
                    found.set()
                return truncation_for(*args)

            monkeypatch.setattr(log_reconciler, "truncation_for", reported)
            async with trio.open_nursery() as nursery:

                async def look() -> None:
                    await found.wait()
                    held = [cluster.partition(1, number=number) for number in range(count)]
                    assert all(p.busy for p in held if p.log.state.log_end_offset)

                nursery.start_soon(look)
                topic_id = cluster.image.topics["t"].topic_id
                await cluster.decide(
                    *(PartitionChanged(topic_id, n, leader=2, isr=(2,)) for n in range(count))
                )
                cluster.heal()
                await found.wait()
            await cluster.until(
                lambda: not any(cluster.partition(1, number=n).busy for n in range(count))
            )
            assert not any(cluster.values(1, number=n) for n in range(count))

    @simulated
    async def test_nobody_else_fetches_what_is_being_cut(self) -> None:
        """Another number of fetchers gives each partition to another one."""
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            await cluster.settled(1, 2)
            await alone(cluster, 1, b"x", b"y")
            replicas = cluster.broker(1).data.replicas
            off_loop, cutting, go = replicas.tasks.off_loop, trio.Event(), trio.Event()

            async def slowly(*args: Any) -> None:
                cutting.set()
                await go.wait()
                await off_loop(*args)

            replicas.tasks.off_loop = slowly  # type: ignore[method-assign]
            await cluster.change(leader=2, isr=(2,), lossy=True)
            cluster.heal()
            await cutting.wait()
            del cluster.asked[:]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cluster.configure, "", "num.replica.fetchers", "3", BROKER)
                await trio.sleep(1)
                assert not [r for asker, _, r in cluster.asked if (asker, r.API_KEY) == (1, FETCH)]
                go.set()
            await cluster.settled(1, 2)

    @simulated
    async def test_a_sync_that_ends_after_a_cut_says_nothing_of_what_comes_in_its_place(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2, configs={"flush.messages": "1"})
            await cluster.produce(1, b"a")
            await cluster.settled(1, 2)
            await alone(cluster, 1, b"x", b"y")
            partition, replicas = cluster.partition(1), cluster.broker(1).data.replicas
            through, go = trio.Event(), trio.Event()

            async def slowly(work: Any, *args: Any, directory: str = "") -> Any:
                await offload(work, *args, directory=directory)
                through.set()
                await go.wait()

            with monkeypatch.context() as patch:
                patch.setattr(partition_tasks, "offload", slowly)
                cluster.broker(1).background.start_soon(replicas.tasks.sync, partition)
                await through.wait()
            await cluster.change(leader=2, isr=(2,), lossy=True)
            cluster.heal()
            await cluster.settled(1, 2)
            assert cluster.values(1) == [b"a"]
            go.set()
            await trio.sleep(1)
            assert partition.synced_offset == 1

    @simulated
    async def test_a_log_that_just_failed_takes_its_directory_along_and_not_the_broker(
        self,
    ) -> None:
        """Its sync has failed in a thread, and no other code knows yet, when the leader's answer
        says where to cut."""
        async with running_cluster(TWO_DIRS, brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            await cluster.settled(1, 2)
            await alone(cluster, 2)
            await alone(cluster, 1)
            log = cluster.partition(1).log
            log.state.dead = StorageError(log.state.directory, "sync", OSError())
            await cluster.change(leader=2, isr=(2,), lossy=True)
            cluster.heal()
            await cluster.until(lambda: cluster.partition(1).offline is not None)

    @simulated
    async def test_below_the_watermark_only_after_an_unclean_election(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            await cluster.settled(1, 2)
            cluster.part(2)
            await cluster.fence(2)
            await cluster.change(isr=(1,))
            assert await cluster.produce(1, b"b") == NONE
            cluster.part(1)
            await cluster.change(leader=2, isr=(2,), lossy=True)
            cluster.heal()
            await cluster.until(lambda: cluster.values(1) == [b"a"])
            assert cluster.partition(1).high_watermark == 1
            assert any(
                r.levelname == "ERROR" and "1 records below its high watermark 2" in r.message
                for r in caplog.records
            )
            assert not cluster.partition(1).stopped

    @simulated
    async def test_what_is_committed_is_not_cut_unless_somebody_decided_so(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            await cluster.settled(1, 2)
            cluster.part(2)
            await cluster.fence(2)
            await cluster.change(isr=(1,))
            assert await cluster.produce(1, b"b") == NONE
            cluster.part(1)
            await cluster.change(leader=2, isr=(2,))
            assert await cluster.produce(2, b"c", acks=1) == NONE
            cluster.heal()
            await cluster.until(lambda: cluster.partition(1).stopped is not None)
            [log] = await told(cluster)
            assert (log.stopped, log.end_offset, log.high_watermark) == (True, 2, 2)
            assert (log.cut_offset, log.leader_end_offset, log.leader_last_epoch) == (1, 2, 1)
            assert cluster.values(1) == [b"a", b"b"]
            await cluster.change(leader=2, isr=(2,))
            await cluster.until(lambda: cluster.partition(1).stopped is not None)
            await trio.sleep(60)
            assert cluster.values(1) == [b"a", b"b"] and len(cluster.reported) > 5
            await cluster.change(leader=2, isr=(2,), lossy=True)
            await cluster.until(lambda: cluster.values(1) == [b"a", b"c"])

    @simulated
    async def test_a_topic_that_allows_unclean_leaders_asked_for_it(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with running_cluster(brokers=2) as cluster:
            own = {"unclean.leader.election.enable": "true"}
            await cluster.create(1, 2, configs=own)
            cluster.part(2)
            await cluster.fence(2)
            await cluster.change(isr=(1,))
            assert await cluster.produce(1, b"b") == NONE
            cluster.part(1)
            await cluster.change(leader=2, isr=(2,))
            cluster.heal()
            await cluster.until(lambda: cluster.values(1) == [])
            assert cluster.broker(1).metrics.committed_truncated.value == 1
            assert any("these records are truncated" in r.message for r in caplog.records)


async def apart(cluster: Cluster) -> None:
    """1 has committed a and b, and follows 2, which has a and c."""
    await cluster.create(1, 2)
    await cluster.produce(1, b"a")
    await cluster.settled(1, 2)
    cluster.part(2)
    await cluster.fence(2)
    await cluster.change(isr=(1,))
    assert await cluster.produce(1, b"b") == NONE
    cluster.part(1)
    await cluster.change(leader=2, isr=(2,))
    assert await cluster.produce(2, b"c", acks=1) == NONE


def kept(cluster: Cluster, node: int) -> dict[str, bytes]:
    """The files with what a follower cut off."""
    disk, directory = cluster.disk(node), cluster.partition(node).log.state.directory
    return {
        name: disk.read(f"{directory}/{name}")
        for name in disk.list(directory)
        if name.endswith(".damaged")
    }


class TestStopped:
    """The controller compares the follower's log with its leader's."""

    @simulated
    async def test_what_has_all_of_its_leaders_log_and_more_leads(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            for value in (b"a", b"b", b"c"):
                await cluster.produce(1, value)
            await cluster.settled(1, 2)
            await cluster.crash(1)
            await cluster.start(1)
            assert cluster.partition(1).log.state.log_end_offset == 0, "the power took it"
            await cluster.change(leader=1)
            await cluster.until(lambda: cluster.partition(2).leads)
            await cluster.settled(1, 2)
            assert cluster.values(1) == [b"a", b"b", b"c"]
            assert kept(cluster, 1) == kept(cluster, 2) == {}

    @simulated
    async def test_where_the_logs_part_is_asked_epoch_by_epoch_and_nothing_is_cut_meanwhile(
        self,
    ) -> None:
        """The follower has epochs 0 and 5, the leader 0 and 3. The first answer is an epoch that
        the follower does not have."""
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            await cluster.settled(1, 2)
            cluster.part(2)
            await cluster.fence(2)
            for _ in range(4):
                await cluster.change(leader=1, isr=(1,))
            assert await cluster.produce(1, b"b") == NONE
            assert await cluster.produce(1, b"b2") == NONE
            log, batch = cluster.partition(2).log, build_batch([(0, None, b"x", ())])
            log.state.assign_epoch_start(3)
            log.appender.append_as_leader(batch, read_header(batch), 3, 0)
            cluster.part(1)
            await cluster.change(leader=2, isr=(2,))
            cluster.heal()
            await cluster.until(lambda: cluster.partition(1).stopped is not None)
            [report] = await told(cluster)
            assert (report.cut_offset, report.leader_end_offset, report.leader_last_epoch) == (
                1, 2, 3
            )  # fmt: skip
            assert cluster.values(1) == [b"a", b"b", b"b2"]

    @simulated
    async def test_a_damaged_log_is_cut_and_what_is_cut_off_is_kept(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await apart(cluster)
            log = cluster.partition(1).log
            log.mark = Mark(Damage.CORRUPT, 2, 3)
            before = cluster.content(1)
            cluster.heal()
            await cluster.until(lambda: cluster.values(1) == [b"a", b"c"])
            [(name, content)] = kept(cluster, 1).items()
            assert name == "00000000000000000001.log.cut.damaged"
            assert before.endswith(content) and b"b" in content
            # The next start finds no damage, since the high watermark fell with the log.
            marks = cluster.disk(1).read("/data/replication-offset-checkpoint")
            assert b"t 0 1" in marks
            await cluster.change(isr=(2, 1))
            await cluster.until(lambda: cluster.partition(1).log.mark is None)
            assert kept(cluster, 1) == {name: content}, "no other replica has it"

    @simulated
    async def test_the_next_controller_hears_of_damage_until_the_replica_is_in_sync(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            # Before it leaves the ISR, or its next fetch would bring it back.
            cluster.parted = {frozenset((1, 2))}
            await cluster.change(isr=(1,))
            log = cluster.partition(2).log
            log.mark = Mark(Damage.CORRUPT, 0, 3)
            for epoch in (7, 8):
                cluster.reported.clear()
                await cluster.decide(ControllerElected(9, epoch))
                await cluster.until(lambda: bool(cluster.reported))
                [report] = await told(cluster)
                assert (report.damage, report.stopped) == (Damage.CORRUPT, False)
            cluster.reported.clear()
            await cluster.change(isr=(1, 2))
            await cluster.until(lambda: log.mark is None)
            await cluster.decide(ControllerElected(9, 9))
            await trio.sleep(60)
            assert not cluster.reported

    @simulated
    async def test_nothing_is_cut_while_there_is_no_room_to_keep_it(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with running_cluster(brokers=2) as cluster:
            await apart(cluster)
            log = cluster.partition(1).log
            log.mark = Mark(Damage.CORRUPT, 2, 3)
            full = StorageError(log.state.directory, "keep records", OSError(errno.ENOSPC, "full"))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Log, "keep_from", lambda *_: raise_(full))
                cluster.heal()
                await cluster.until(lambda: "could not be copied" in caplog.text)
                assert cluster.values(1) == [b"a", b"b"]
            await cluster.until(lambda: cluster.values(1) == [b"a", b"c"])
            assert not any(d.failed for d in cluster.broker(1).data.replicas.directories)

    @simulated
    async def test_a_leader_epoch_that_has_not_been_is_cut_off(self) -> None:
        """A bit flipped in the epoch of the very last batch, which no checksum covers."""
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            for value in (b"a", b"b"):
                await cluster.produce(1, value)
            await cluster.settled(1, 2)
            await cluster.stop(2)
            [path] = [
                f"/data/t-0/{name}"
                for name in cluster.disk(2).list("/data/t-0")
                if name[20:] == ".log"
            ]
            file = cluster.disk(2).open(path)
            position, _ = list(iter_headers(file.pread(file.size(), 0)))[-1]
            file.pwrite((64).to_bytes(4, "big"), position + 12)
            cluster.disk(2).remove("/data/.kafka_cleanshutdown")
            await cluster.start(2)
            await cluster.produce(1, b"c")
            await cluster.settled(1, 2)
            assert cluster.values(2) == [b"a", b"b", b"c"]
            assert len(kept(cluster, 2)) == 1


def raise_(error: Exception) -> Any:
    raise error


async def told(cluster: Cluster) -> list[ReplicaLog]:
    """The reported logs, once there is a report."""
    await cluster.until(lambda: bool(cluster.reported))
    return [log for topic in cluster.reported[-1].topics for log in topic.partitions]


class TestOutOfRange:
    @simulated
    async def test_the_leader_begins_behind_our_end(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2, configs={"file.delete.delay.ms": "1"})
            for i in range(4):
                await cluster.produce(1, b"%d" % i)
            cluster.part(2)
            await cluster.fence(2)
            await cluster.change(isr=(1,))
            for i in range(4, 20):
                await cluster.produce(1, b"%d" % i)
            await delete_before(cluster, 10)
            cluster.heal()
            await cluster.settled_from(10, 1, 2)
            assert cluster.partition(2).log.state.log_start_offset == 10
            assert cluster.partition(2).log.durability.recovery_point <= 10

    @simulated
    async def test_the_leader_ends_before_our_begin(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            for i in range(4):
                await cluster.produce(1, b"%d" % i)
            await delete_before(cluster, 3)
            await cluster.until(lambda: cluster.partition(2).log.state.log_start_offset == 3)
            cluster.partition(1).log.log_dir.write_log_start_offsets()
            # 2 lost its disk, and leads all the same.
            await cluster.stop(2)
            cluster.disk(2).remove_tree("/data")
            await cluster.start(2)
            cluster.part(1)
            await cluster.change(leader=2, isr=(2,), lossy=True)
            assert await cluster.produce(2, b"anew") == NONE
            cluster.heal()
            await cluster.settled(1, 2)
            assert cluster.values(1) == [b"anew"]
            await cluster.crash(1, power=False)
            await cluster.start(1)
            assert cluster.values(1) == [b"anew"], "that it began at 3 is not noted any more"


class TestChanges:
    @simulated
    async def test_what_an_old_leader_sent_is_not_appended(self) -> None:
        async with running_cluster(brokers=3) as cluster:
            await cluster.create(1, 2, 3)
            await cluster.produce(1, b"a")
            await cluster.settled(1, 2, 3)
            held, go = trio.Event(), trio.Event()

            async def hold(asker: int, asked: int, request: Any) -> None:
                if (asker, asked, request.API_KEY) == (3, 1, FETCH):
                    held.set()
                    await go.wait()

            cluster.before = hold
            await held.wait()
            cluster.lagging.add(1)
            assert await cluster.produce(1, b"old", acks=1) == NONE
            cluster.part(1)
            cluster.parted.discard(frozenset((1, 3)))
            await cluster.change(leader=2, isr=(2, 3))
            go.set()
            assert await cluster.produce(2, b"new") == NONE
            assert cluster.values(3) == [b"a", b"new"]
            await cluster.catch_up(1)
            cluster.heal()
            await cluster.settled(1, 2, 3)

    @simulated
    async def test_a_new_epoch_of_the_same_leader(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            await cluster.change(leader=1)
            assert await cluster.produce(1, b"b") == NONE
            await cluster.settled(1, 2)
            assert cluster.partition(2).log.state.epochs.entries == [(0, 0), (1, 1)]

    @simulated
    async def test_partitions_that_come_do_not_wait_for_a_long_poll(self) -> None:
        async with running_cluster(replica__fetch__wait__max__ms="60000") as cluster:
            await cluster.create(1, 2, 3, topic="other")
            await cluster.produce(1, b"a", topic="other")
            await cluster.create(2, 1, 3)
            await cluster.produce(2, b"a")
            await trio.sleep(100)
            begun = trio.current_time()
            await cluster.change(leader=1)
            assert await cluster.produce(1, b"b") == NONE
            assert trio.current_time() - begun < 0.1

    @simulated
    async def test_a_leader_that_does_not_know_yet_that_it_is_one(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            cluster.lagging.add(2)
            await cluster.change(leader=2)
            await trio.sleep(0.05)
            await cluster.catch_up(2)
            begun = trio.current_time()
            assert await cluster.produce(2, b"b") == NONE
            assert trio.current_time() - begun < 0.2
            await cluster.settled(1, 2)

    @simulated
    async def test_a_bit_that_flips_on_the_wire(self, caplog: pytest.LogCaptureFixture) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            spoilt: list[int] = []

            def spoil(api_key: int, data: bytes) -> bytes:
                at = data.find(b"precious")
                if api_key != FETCH or at < 0 or len(spoilt) == 3:
                    return data
                spoilt.append(at)
                return data[:at] + b"q" + data[at + 1 :]

            cluster.spoil = spoil
            assert await cluster.produce(1, b"precious", timeout_ms=10_000) == NONE
            assert len(spoilt) == 3
            assert cluster.values(2) == [b"precious"]
            assert any("CRC is" in record.message for record in caplog.records)

    @simulated
    async def test_a_session_that_the_leader_has_forgotten(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            sessions = cluster.broker(1).data.fetch_sessions
            assert len(sessions) == 1
            sessions.close(next(iter(sessions._sessions)))
            assert await cluster.produce(1, b"b", timeout_ms=5000) == NONE
            assert len(sessions) == 1
            # And one that gives out none at all.
            sessions._slots = 0
            sessions.close(next(iter(sessions._sessions)))
            for i in range(3):
                assert await cluster.produce(1, b"%d" % i, timeout_ms=5000) == NONE
            await cluster.settled(1, 2)

    @simulated
    async def test_only_what_changed_is_named(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2, partitions=50)
            for number in range(50):
                await cluster.produce(1, b"a", number=number)
            await trio.sleep(1)
            del cluster.asked[:]
            await cluster.produce(1, b"b", number=7)
            await trio.sleep(0.1)
            named = [
                p.partition
                for _, _, request in cluster.asked
                for topic in request.topics
                for p in topic.partitions
            ]
            assert named == [7]


async def delete_before(cluster: Cluster, offset: int) -> None:
    wish = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[wish])], timeout_ms=5000
    )
    answer = await cluster.ask(1, request, 2)
    assert answer.topics[0].partitions[0].error_code == NONE
    assert answer.topics[0].partitions[0].low_watermark == offset
