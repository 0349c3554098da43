"""Which replica serves which reader: followers under a throttle, consumers near them, offsets that
a new leader does not know yet."""

from typing import Any

import pytest
import trio
from broker.cluster import FETCH, Cluster, running_cluster
from group.brokers import simulated
from trio_clock import TrioClock

from pk.core.broker.replication.replication_quotas import UNLIMITED, Quota, is_throttled
from pk.core.config import BrokerConfig, ConfigError
from pk.core.errors import ErrorCode
from pk.core.meta.events import BROKER
from pk.core.record.batch import iter_headers, records
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

NONE = ErrorCode.NONE
NEAREST = {"replica__selector__class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


async def fetch(
    cluster: Cluster,
    node: int,
    offset: int = 0,
    *,
    rack: str = "",
    version: int = 18,
    wait_ms: int = 0,
    replica: tuple[int, int] | None = None,
) -> Any:
    """The partition's answer to a consumer, or to the follower `replica` (node, broker epoch)."""
    topic_id = cluster.image.topics["t"].topic_id
    wish = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        rack_id=rack,
        topics=[FetchTopic(topic="t", topic_id=topic_id, partitions=[wish])],
    )
    if replica is not None:
        request.replica_state = ReplicaState(replica_id=replica[0], replica_epoch=replica[1])
    answer = await cluster.ask(node, request, version)
    assert answer.error_code == NONE
    return answer.responses[0].partitions[0]


def values_of(data: Any) -> list[bytes | None]:
    return [
        record.value
        for position, header in iter_headers(data.records or b"")
        for record in records(data.records[position : position + header.size], header)
    ]


class TestNearest:
    @simulated
    async def test_a_consumer_is_sent_to_its_rack_and_reads_there(self) -> None:
        async with running_cluster(NEAREST, racks="abb") as cluster:
            await cluster.create(1, 2, 3)
            await cluster.produce(1, b"a")
            await cluster.settled(1, 2, 3)
            sent = await fetch(cluster, 1, rack="b")
            assert (sent.preferred_read_replica, values_of(sent)) == (2, [])
            assert values_of(await fetch(cluster, 2, rack="b")) == [b"a"]
            for rack in ("a", "", "elsewhere"):
                data = await fetch(cluster, 1, rack=rack)
                assert (data.preferred_read_replica, values_of(data)) == (-1, [b"a"])

    @simulated
    async def test_only_where_it_is_in_sync_alive_and_that_far(self) -> None:
        async with running_cluster(NEAREST, racks="abb") as cluster:
            await cluster.create(1, 2, 3)
            await cluster.produce(1, b"a")
            cluster.part(2)
            await cluster.produce(1, b"b", acks=1)
            await cluster.until(lambda: cluster.partition(1).followers[3].log_end_offset == 2)
            assert (await fetch(cluster, 1, 0, rack="b")).preferred_read_replica == 3
            assert (await fetch(cluster, 1, 2, rack="b")).preferred_read_replica == 3
            await cluster.fence(3)
            assert (await fetch(cluster, 1, 0, rack="b")).preferred_read_replica == 2
            assert (await fetch(cluster, 1, 2, rack="b")).preferred_read_replica == -1

    @simulated
    async def test_nobody_is_sent_away_without_a_selector(self) -> None:
        async with running_cluster(racks="ab", brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            await cluster.settled(1, 2)
            assert (await fetch(cluster, 1, rack="b")).preferred_read_replica == -1

    def test_an_unknown_selector_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="RackAwareReplicaSelector"):
            BrokerConfig.parse({"node.id": "1", "replica.selector.class": "org.example.Mine"})


class TestFollowersAsServers:
    @simulated
    async def test_up_to_their_own_watermark(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            await cluster.settled(1, 2)
            cluster.lagging.add(2)
            await cluster.produce(1, b"b")
            assert cluster.partition(2).log.state.log_end_offset == 2
            assert cluster.partition(2).high_watermark == 1, "told with the next answer"
            assert values_of(await fetch(cluster, 2, 0)) == [b"a"]
            assert values_of(await fetch(cluster, 2, 1)) == []
            beyond = await fetch(cluster, 2, 3)
            assert beyond.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
            assert (await fetch(cluster, 1, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            # A fetch that waits there is answered when the watermark arrives.
            waiting = await fetch(cluster, 2, 1, wait_ms=2000)
            assert values_of(waiting) == [b"b"]

    @simulated
    async def test_clients_too_old_for_that_are_sent_to_the_leader(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            await cluster.settled(1, 2)
            old = await fetch(cluster, 2, version=10)
            assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            replica = (1, cluster.image.brokers[1].broker_epoch)
            follower = await fetch(cluster, 2, replica=replica)
            assert follower.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


class TestNewLeader:
    @simulated
    async def test_latest_is_not_told_before_the_watermark_reaches_the_epoch(self) -> None:
        async with running_cluster() as cluster:
            await cluster.create(1, 2, 3)
            await cluster.produce(1, b"a")
            await cluster.settled(1, 2, 3)
            await cluster.produce(1, b"b")
            cluster.part(3)
            await cluster.change(leader=2, isr=(2, 3))
            leader = cluster.partition(2)
            assert (leader.high_watermark, leader.epoch_start_offset) == (1, 2)
            assert await latest(cluster, 2) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
            assert await latest(cluster, 2, version=4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
            assert await latest(cluster, 2, replica_id=3) == (NONE, 2)
            cluster.heal()
            await cluster.settled(1, 2, 3)
            assert await latest(cluster, 2) == (NONE, 2)
            assert await latest(cluster, 3) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            assert await latest(cluster, 3, replica_id=-2) == (NONE, 2)


async def latest(
    cluster: Cluster, node: int, *, version: int = 9, replica_id: int = -1
) -> tuple[int, int]:
    wish = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=replica_id, topics=[ListOffsetsTopic(name="t", partitions=[wish])]
    )
    data = (await cluster.ask(node, request, version)).topics[0].partitions[0]
    return data.error_code, data.offset


class TestFollowersFetch:
    @simulated
    async def test_who_is_no_replica_or_not_itself_any_more_is_refused(self) -> None:
        async with running_cluster() as cluster:
            await cluster.create(1, 2)
            epoch = cluster.image.brokers[2].broker_epoch
            refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
            stranger = (3, cluster.image.brokers[3].broker_epoch)
            assert (await fetch(cluster, 1, replica=stranger)).error_code == refused
            assert (await fetch(cluster, 1, replica=(2, epoch - 1))).error_code == refused
            assert (await fetch(cluster, 1, replica=(2, epoch))).error_code == NONE

    @simulated
    async def test_what_is_out_of_range_says_nothing_of_a_follower(self) -> None:
        async with running_cluster() as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            cluster.part(2)
            replica = (2, cluster.image.brokers[2].broker_epoch)
            data = await fetch(cluster, 1, 5, replica=replica)
            assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert cluster.partition(1).followers[2].log_end_offset == 1


class TestQuota:
    @simulated
    async def test_a_rate_over_a_sliding_window(self) -> None:
        quota = Quota(TrioClock(), 1000, 11, 1)
        assert not quota.exceeded
        quota.record(900)
        assert not quota.exceeded
        quota.record(900)
        assert quota.exceeded and quota.wait_s == pytest.approx(1.8)
        await trio.sleep(1.79)
        assert quota.exceeded
        await trio.sleep(0.02)
        assert not quota.exceeded
        await trio.sleep(20)
        assert quota.measured_rate == 0
        quota.rate = UNLIMITED
        quota.record(1 << 40)
        assert quota.unlimited and not quota.exceeded and quota.measured_rate == 0

    def test_lists_of_throttled_replicas(self) -> None:
        assert is_throttled(("*",), 7, 1)
        assert not is_throttled((), 7, 1)
        some = ("0:1", "7:2")
        assert is_throttled(some, 7, 2) and not is_throttled(some, 7, 1)


class TestThrottles:
    @pytest.mark.parametrize("side", ["leader", "follower"])
    def test_a_new_replica_comes_as_slowly_as_told_and_producers_do_not_wait(
        self, side: str
    ) -> None:
        @simulated
        async def run() -> None:
            async with running_cluster() as cluster:
                await cluster.create(1, 2)
                for _ in range(100):
                    await cluster.produce(1, bytes(50_000))
                await cluster.settled(1, 2)
                await cluster.configure("", f"{side}.replication.throttled.rate", "500000", BROKER)
                await cluster.configure("t", f"{side}.replication.throttled.replicas", "*")
                begun = trio.current_time()
                await cluster.change(replicas=(1, 2, 3))
                for _ in range(5):
                    sent = trio.current_time()
                    assert await cluster.produce(1, b"x") == NONE
                    assert trio.current_time() - sent < 0.1
                    await trio.sleep(0.5)
                assert 0 < cluster.partition(3).log.state.log_end_offset < 100
                await cluster.until(lambda: 3 in cluster.isr())
                # Five megabytes at half a megabyte a second; one answer may go beyond it.
                assert 6 < trio.current_time() - begun < 13

        run()

    @simulated
    async def test_only_what_is_listed_waits(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.configure("", "leader.replication.throttled.rate", "1000", BROKER)
            cluster.part(2)
            for topic in ("slow", "fast"):
                await cluster.create(1, 2, topic=topic, isr=(1,))
            await cluster.configure("slow", "leader.replication.throttled.replicas", "0:1")
            for topic in ("slow", "fast"):
                for _ in range(20):
                    await cluster.produce(1, bytes(100_000), topic=topic, acks=1)
            cluster.heal()
            begun = trio.current_time()
            await cluster.until(lambda: cluster.isr("fast") == (1, 2))
            assert trio.current_time() - begun < 2
            assert cluster.partition(2, "slow").log.state.log_end_offset < 20
            await cluster.configure("", "leader.replication.throttled.rate", "100000000", BROKER)
            await cluster.until(lambda: cluster.isr("slow") == (1, 2))


class TestSessions:
    @simulated
    async def test_a_followers_session_takes_the_place_of_a_consumers(self) -> None:
        async with running_cluster(
            brokers=2, max__incremental__fetch__session__cache__slots="1"
        ) as cluster:
            await cluster.create(1, 2)
            await cluster.until(lambda: len(cluster.broker(1).data.fetch_sessions) == 1)
            (session,) = cluster.broker(1).data.fetch_sessions._sessions.values()
            assert session.privileged
            wish = FetchPartition(partition=0, partition_max_bytes=1000)
            topic_id = cluster.image.topics["t"].topic_id
            request = FetchRequest(
                session_epoch=0, topics=[FetchTopic(topic_id=topic_id, partitions=[wish])]
            )
            answer = await cluster.ask(1, request, 18)
            assert answer.session_id == 0, "a consumer's does not take the follower's"
            assert await cluster.produce(1, b"a") == NONE
            fetches = [r for _, _, r in cluster.asked if r.API_KEY == FETCH]
            assert sum(r.session_epoch == 0 for r in fetches) == 1
