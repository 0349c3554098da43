"""Data that must not be lost: promised syncs, watermarks over restarts, coordinators that move,
logs that move."""

import errno
from typing import Any

import trio
from broker.cluster import FETCH, Cluster, running_cluster
from group.brokers import simulated

from pk.core.errors import ErrorCode
from pk.core.meta.image import PartitionImage
from pk.core.values import OFFSETS_TOPIC, ZERO_UUID
from pk.core.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pk.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

NONE = ErrorCode.NONE
TWO_DIRS = {"log__dirs": "/a,/b"}


class TestFlushing:
    @simulated
    async def test_what_is_acknowledged_is_synced_everywhere(self) -> None:
        async with running_cluster() as cluster:
            await cluster.create(1, 2, 3, configs={"flush.messages": "1"})
            for i in range(5):
                assert await cluster.produce(1, b"%d" % i) == NONE
                for node in (1, 2, 3):
                    assert cluster.partition(node).log.durability.recovery_point == i + 1
            for node in (1, 2, 3):
                await cluster.crash(node)
            for node in (2, 3):
                await cluster.start(node)
                assert cluster.values(node) == [b"0", b"1", b"2", b"3", b"4"]

    @simulated
    async def test_the_watermark_waits_for_the_leaders_own_sync(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2, configs={"flush.messages": "1"})
            replicas = cluster.broker(1).data.replicas
            flush, held = replicas.tasks.flush, []
            replicas.tasks.flush = held.append  # type: ignore[method-assign,assignment]
            assert await cluster.produce(1, b"a", timeout_ms=500) == ErrorCode.REQUEST_TIMED_OUT
            assert cluster.partition(2).log.durability.recovery_point == 1
            assert cluster.partition(1).high_watermark == 0
            replicas.tasks.flush = flush  # type: ignore[method-assign]
            flush(held[0])
            assert await cluster.produce(1, b"b") == NONE

    @simulated
    async def test_a_new_leader_syncs_what_it_has_before_it_counts(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2, configs={"flush.messages": "1"})
            assert await cluster.produce(1, b"a") == NONE
            follower = cluster.broker(2).data.replicas
            syncing, go = trio.Event(), trio.Event()
            sync = follower.tasks.sync

            async def hold(partition: Any) -> None:
                syncing.set()
                await go.wait()
                await sync(partition)

            follower.tasks.sync = hold  # type: ignore[method-assign]
            await cluster.produce(1, b"b", acks=1)
            await syncing.wait()
            await cluster.change(leader=2, isr=(2,))
            partition = cluster.partition(2)
            assert partition.log.state.log_end_offset == 2 and partition.high_watermark <= 1
            go.set()
            await cluster.until(lambda: partition.high_watermark == 2)
            assert partition.log.durability.recovery_point == 2

    @simulated
    async def test_who_returns_syncs_what_it_has_before_it_counts(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            assert cluster.partition(2).log.durability.recovery_point == 0
            await cluster.crash(2, power=False)
            await cluster.configure("t", "flush.messages", "1")
            seen: list[int] = []

            async def look(asker: int, asked: int, request: Any) -> None:
                if (asker, request.API_KEY) == (2, FETCH) and request.topics:
                    seen.append(cluster.partition(2).log.durability.recovery_point)

            cluster.before = look
            await cluster.start(2)
            await cluster.until(lambda: bool(seen))
            assert seen[0] == 1

    @simulated
    async def test_what_came_before_a_damaged_batch_is_synced_before_it_counts(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2, configs={"flush.messages": "1"})
            cluster.part(2)
            for value in (b"whole", b"precious"):
                await cluster.produce(1, value, acks=1)
            unsynced: list[int] = []

            def spoil(api_key: int, data: bytes) -> bytes:
                at = data.find(b"precious")
                if api_key != FETCH or at < 0 or b"whole" not in data:
                    return data
                return data[:at] + b"q" + data[at + 1 :]

            async def look(asker: int, asked: int, request: Any) -> None:
                if (asker, request.API_KEY) == (2, FETCH):
                    log = cluster.partition(2).log
                    unsynced.append(log.state.log_end_offset - log.durability.recovery_point)

            cluster.spoil, cluster.before = spoil, look
            cluster.heal()
            await cluster.settled(1, 2)
            assert set(unsynced) == {0}


class TestFailingDisks:
    @simulated
    async def test_a_follower_whose_disk_failed_asks_for_nothing_more(self) -> None:
        async with running_cluster(TWO_DIRS, brokers=2) as cluster:
            await cluster.create(1, 2, partitions=2)
            for number in (0, 1):
                await cluster.produce(1, b"a", number=number)
            failed = cluster.partition(2).log
            cluster.disk(2).fail_next("write", suffix=f"{failed.state.directory}/{0:020d}.log")
            cluster.disk(2).fail_next("truncate", suffix=f"{failed.state.directory}/{0:020d}.log")
            await cluster.produce(1, b"b", acks=1)
            await cluster.until(lambda: cluster.partition(2).offline is not None)
            await trio.sleep(2)
            del cluster.asked[:]
            await trio.sleep(5)
            assert len([r for _, _, r in cluster.asked if r.API_KEY == FETCH]) <= 11
            assert await cluster.produce(1, b"b", number=1) == NONE, "the other directory works"

    @simulated
    async def test_a_full_disk_that_a_sync_meets_costs_no_directory(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2, configs={"flush.messages": "1"})
            for node in (1, 2):
                cluster.disk(node).fail_next(
                    "write", errno.ENOSPC, suffix="/leader-epoch-checkpoint.tmp"
                )
            assert await cluster.produce(1, b"a") == NONE, "what must be durable is"
            logs = [cluster.partition(node).log for node in (1, 2)]
            assert [log.durability.durable_offset for log in logs] == [1, 1]
            assert [log.durability.recovery_point for log in logs] == [0, 0]
            assert await cluster.produce(1, b"b") == NONE
            assert [log.durability.recovery_point for log in logs] == [2, 2], "there is room again"
            for node in (1, 2):
                await cluster.crash(node)
            await cluster.start(2)
            assert cluster.values(2) == [b"a", b"b"]


class TestRestarts:
    @simulated
    async def test_the_watermark_is_what_the_checkpoint_says(self) -> None:
        async with running_cluster() as cluster:
            await cluster.create(1, 2, 3)
            for i in range(5):
                await cluster.produce(1, b"%d" % i)
            await cluster.settled(1, 2, 3)
            cluster.part(3)
            await cluster.stop(3)
            await cluster.produce(1, b"x", acks=1)
            await cluster.start(3)
            assert cluster.partition(3).high_watermark == 5
            cluster.heal()
            await cluster.settled(1, 2, 3)

    @simulated
    async def test_nothing_acknowledged_is_lost_while_one_lives(self) -> None:
        async with running_cluster(replica__lag__time__max__ms="2000") as cluster:
            await cluster.create(1, 2, 3)
            sent: list[bytes] = []
            for turn, leader in enumerate((1, 2, 3, 1, 2)):
                await cluster.change(leader=leader)
                for i in range(3):
                    value = b"%d %d" % (turn, i)
                    assert await cluster.produce(leader, value, timeout_ms=10_000) == NONE
                    sent.append(value)
                await cluster.crash(leader)
                others = tuple(n for n in cluster.isr() if n != leader)
                await cluster.change(leader=others[0], isr=others)
                assert cluster.values(others[0]) == sent
                await cluster.start(leader)
                await cluster.until(lambda: set(cluster.isr()) == {1, 2, 3})
            await cluster.settled(1, 2, 3)
            assert cluster.values(1) == sent


def commit(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])]
    )


async def committed(cluster: Cluster, node: int) -> int:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    answer = await cluster.ask(node, request, 8)
    return answer.groups[0].topics[0].partitions[0].committed_offset


class TestCoordinators:
    @simulated
    async def test_they_move_with_the_leader_and_replay(self) -> None:
        async with running_cluster(replica__lag__time__max__ms="2000") as cluster:
            await cluster.create(1, 2, 3)
            await cluster.create(1, 2, 3, topic=OFFSETS_TOPIC)
            await cluster.until(
                lambda: any(c.is_active for c in cluster.broker(1).groups.coordinators)
            )
            answer = await cluster.ask(1, commit(7), 9)
            assert answer.topics[0].partitions[0].error_code == NONE
            for node in (2, 3):
                assert cluster.partition(node, OFFSETS_TOPIC).log.state.log_end_offset == 1
            # The controller is cut off and continues to decide, but no broker learns of its
            # decisions.
            cluster.part(1)
            cluster.lagging.add(1)
            answer = await cluster.ask(1, commit(9), 9)
            code = answer.topics[0].partitions[0].error_code
            assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await cluster.change(OFFSETS_TOPIC, leader=2, isr=(2, 3))
            await cluster.until(
                lambda: any(c.is_active for c in cluster.broker(2).groups.coordinators)
            )
            assert await committed(cluster, 2) == 7
            answer = await cluster.ask(2, commit(8), 9)
            assert answer.topics[0].partitions[0].error_code == NONE
            cluster.heal()
            await cluster.catch_up(1)
            answer = await cluster.ask(1, commit(10), 9)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
            await cluster.settled(1, 2, 3, topic=OFFSETS_TOPIC)
            await cluster.change(OFFSETS_TOPIC, leader=1)
            await cluster.until(
                lambda: any(c.is_active for c in cluster.broker(1).groups.coordinators)
            )
            assert await committed(cluster, 1) == 8


class TestDeleteRecords:
    @simulated
    async def test_it_waits_for_every_replica_that_lives(self) -> None:
        async with running_cluster() as cluster:
            await cluster.create(1, 2, 3)
            for i in range(10):
                await cluster.produce(1, b"%d" % i)
            await cluster.settled(1, 2, 3)

            async def delete(offset: int, timeout_ms: int) -> tuple[int, int]:
                wish = DeleteRecordsPartition(partition_index=0, offset=offset)
                topic = DeleteRecordsTopic(name="t", partitions=[wish])
                request = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
                data = (await cluster.ask(1, request, 2)).topics[0].partitions[0]
                return data.error_code, data.low_watermark

            begun = trio.current_time()
            assert await delete(4, 5000) == (NONE, 4)
            assert trio.current_time() - begun < 0.1, "no caller waits for a long poll"
            assert cluster.partition(3).log.state.log_start_offset == 4
            cluster.part(3)
            assert await delete(6, 1000) == (ErrorCode.REQUEST_TIMED_OUT, -1)
            await cluster.fence(3)
            assert await delete(7, 1000) == (NONE, 7)


class TestDirectories:
    @simulated
    async def test_the_controller_is_told_where_replicas_lie(self) -> None:
        async with running_cluster(TWO_DIRS, brokers=2) as cluster:
            await cluster.create(1, 2, partitions=4)

            def reported() -> bool:
                return all(
                    image.directory(node)
                    == cluster.partition(node, "t", n).log.log_dir.directory_id
                    for n in range(4)
                    if (image := cluster.image.partition("t", n)) is not None
                    for node in (1, 2)
                )

            await cluster.until(reported)
            assert len(cluster.assigned) <= 4
            partition = cluster.partition(2)
            other = "/b" if partition.log.log_dir.path == "/a" else "/a"
            cluster.broker(2).data.alter_log_dirs.move("t", 0, other)
            await cluster.until(lambda: partition.log.log_dir.path == other)
            await cluster.until(reported)

    @simulated
    async def test_who_has_one_left_tells_what_was_created_in_it(self) -> None:
        """Or the controller would wait for the directory that is gone, and never take the replica
        for one in sync."""
        async with running_cluster(TWO_DIRS, brokers=2) as cluster:
            await cluster.create(1, 2)
            assert await cluster.produce(1, b"a") == NONE
            await cluster.until(lambda: first(cluster).directory(2) != ZERO_UUID)
            gone = cluster.partition(2).log.log_dir.path
            await cluster.stop(2)
            await cluster.change(isr=(1,))
            cluster._config["log.dirs"] = "/a" if gone == "/b" else "/b"
            await cluster.start(2)
            await cluster.until(lambda: set(cluster.isr()) == {1, 2})
            here = cluster.partition(2).log.log_dir
            assert (here.path, first(cluster).directory(2)) != (gone, ZERO_UUID)
            assert first(cluster).directory(2) == here.directory_id
            assert cluster.values(2) == [b"a"]

    @simulated
    async def test_who_never_had_more_than_one_tells_nothing(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            assert await cluster.produce(1, b"a") == NONE
            await cluster.stop(2)
            await cluster.start(2)
            await cluster.settled(1, 2)
            assert cluster.assigned == []

    @simulated
    async def test_a_failed_one_is_reported_by_the_heartbeat(self) -> None:
        async with running_cluster(TWO_DIRS, brokers=1) as cluster:
            await cluster.create(1, partitions=2, configs={"flush.messages": "1"})
            replicas = cluster.broker(1).data.replicas
            assert replicas.failures.offline_directories == []
            failed = cluster.partition(1).log.log_dir
            cluster.disk(1).fail_next("sync", suffix=f"{failed.path}/t-0/{0:020d}.log")
            assert await cluster.produce(1, b"a") == ErrorCode.KAFKA_STORAGE_ERROR
            assert replicas.failures.offline_directories == [failed.directory_id]

    @simulated
    async def test_a_copy_is_cut_with_the_log_it_copies(self) -> None:
        async with running_cluster(TWO_DIRS, brokers=2) as cluster:
            await cluster.create(1, 2)
            for _ in range(3):
                await cluster.produce(1, bytes(1000))
            await cluster.settled(1, 2)
            cluster.part(1)
            for _ in range(20):
                await cluster.produce(1, b"nobody's" * 1000, acks=1)
            await cluster.change(leader=2, isr=(2,))
            for _ in range(40):
                await cluster.produce(2, b"new" * 5000)
            partition = cluster.partition(1)
            other = "/b" if partition.log.log_dir.path == "/a" else "/a"
            # So slow that the log is cut, and grows beyond the place, while the copy stands where
            # it was.
            cluster.broker(1).data.replication_quotas.directories.rate = 20_000
            cluster.broker(1).data.alter_log_dirs.move("t", 0, other)
            (move,) = cluster.broker(1).data.alter_log_dirs.moves(
                partition_directory(cluster, 1, other)
            )
            await cluster.until(
                lambda: move.future is not None and move.future.state.log_end_offset > 3
            )
            cluster.heal()
            await cluster.until(lambda: partition.log.log_dir.path == other)
            await cluster.settled(1, 2)

    @simulated
    async def test_what_a_failed_move_left_is_cut_to_what_the_log_has_by_now(self) -> None:
        """Or records that were never committed would lie below those that were, under the epochs
        of the log: nothing could notice any more."""
        async with running_cluster(TWO_DIRS, brokers=2) as cluster:
            await cluster.create(1, 2)
            for _ in range(3):
                await cluster.produce(1, b"both's")
            await cluster.settled(1, 2)
            cluster.part(1)
            for _ in range(20):
                await cluster.produce(1, b"nobody's" * 10_000, acks=1)  # not copied at once
            await cluster.change(leader=2, isr=(2,))
            for _ in range(40):
                await cluster.produce(2, b"new")
            partition, moves = cluster.partition(1), cluster.broker(1).data.alter_log_dirs
            other = "/b" if partition.log.log_dir.path == "/a" else "/a"
            directory = partition_directory(cluster, 1, other)
            cluster.broker(1).data.replication_quotas.directories.rate = 20_000
            moves.move("t", 0, other)
            (move,) = moves.moves(directory)
            await cluster.until(
                lambda: move.future is not None and move.future.state.log_end_offset > 3
            )
            cluster.disk(1).fail_next("write", errno.ENOSPC, suffix=f"-future/{0:020d}.log")
            await cluster.until(lambda: not moves.moves(directory))
            cluster.heal()
            await cluster.settled(1, 2)
            assert partition.log.log_dir is not directory
            moves.move("t", 0, other)
            await cluster.until(lambda: partition.log.log_dir is directory)
            assert cluster.values(1) == cluster.values(2)


def first(cluster: Cluster) -> PartitionImage:
    found = cluster.image.partition("t", 0)
    assert found is not None
    return found


def partition_directory(cluster: Cluster, node: int, path: str) -> Any:
    return next(d for d in cluster.broker(node).data.replicas.directories if d.path == path)
