"""The in-sync replicas: leaving and joining, which ISR counts when, and the meaning of the
controller's refusals."""

import pytest
import trio
import trio.testing
from broker.cluster import CONTROLLER, running_cluster
from broker.followers import follower_fetches
from group.brokers import simulated
from log.support import NOW, make_batch

from pk.core.errors import ErrorCode
from pk.core.meta.events import BrokerChanged

NONE = ErrorCode.NONE
LAG = {"replica__lag__time__max__ms": "10000"}


class TestShrinking:
    @simulated
    async def test_who_is_silent_leaves_and_who_caught_up_joins(self) -> None:
        async with running_cluster(LAG) as cluster:
            await cluster.create(1, 2, 3)
            await cluster.produce(1, b"a")
            begun = trio.current_time()
            cluster.parted.add(frozenset((3, 1)))
            cluster.cut_channels(3)
            await cluster.produce(1, b"b", acks=1)
            await cluster.until(lambda: cluster.isr() == (1, 2))
            # Twice in the time that is allowed it is looked at: so within one and a half times of
            # it.
            assert 10 <= trio.current_time() - begun <= 15.5
            assert cluster.partition(1).high_watermark == 2
            assert await cluster.produce(1, b"c") == NONE
            cluster.heal()
            await cluster.until(lambda: set(cluster.isr()) == {1, 2, 3})
            await cluster.settled(1, 2, 3)
            assert len(cluster.altered) == 2

    @simulated
    async def test_who_has_everything_stays_however_long_nothing_comes(self) -> None:
        async with running_cluster(LAG) as cluster:
            await cluster.create(1, 2, 3)
            await cluster.produce(1, b"a")
            await trio.sleep(100)
            cluster.parted.add(frozenset((3, 1)))
            cluster.cut_channels(3)
            await trio.sleep(100)
            assert cluster.altered == [], "what 3 has is all there is"

    @simulated
    async def test_one_request_for_all_partitions(self) -> None:
        async with running_cluster(LAG) as cluster:
            await cluster.create(1, 2, partitions=20)
            for number in range(20):
                await cluster.produce(1, b"a", number=number)
            await cluster.crash(2, power=False)
            for number in range(20):
                await cluster.produce(1, b"b", number=number, acks=1)
            await cluster.until(lambda: cluster.isr(number=19) == (1,))
            assert len(cluster.altered) == 1
            (topic,) = cluster.altered[0].topics
            assert len(topic.partitions) == 20

    @simulated
    async def test_nothing_counts_before_the_controller_has_said_so(self) -> None:
        async with running_cluster(LAG) as cluster:
            await cluster.create(1, 2, 3)
            cluster.part(3)
            cluster.parted.add(frozenset((1, CONTROLLER)))
            await cluster.produce(1, b"a", acks=1)
            await trio.sleep(60)
            assert cluster.partition(1).proposal is not None
            assert cluster.partition(1).high_watermark == 0
            cluster.parted.discard(frozenset((1, CONTROLLER)))
            await cluster.until(lambda: cluster.partition(1).high_watermark == 1)
            assert cluster.isr() == (1, 2)


class TestTooFew:
    @simulated
    async def test_the_watermark_stands_below_min_insync_replicas(self) -> None:
        async with running_cluster(LAG) as cluster:
            await cluster.create(1, 2, 3, configs={"min.insync.replicas": "2"})
            await cluster.produce(1, b"a")
            cluster.part(2, 3)
            answers: list[int] = []

            async def wait() -> None:
                answers.append(await cluster.produce(1, b"b", timeout_ms=60_000))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await cluster.until(lambda: cluster.isr() == (1,))
            assert answers == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
            assert cluster.partition(1).high_watermark == 1
            assert await cluster.produce(1, b"c") == ErrorCode.NOT_ENOUGH_REPLICAS
            assert await cluster.produce(1, b"d", acks=1) == NONE
            assert cluster.partition(1).high_watermark == 1
            cluster.heal()
            await cluster.until(lambda: len(cluster.isr()) == 3)
            assert await cluster.produce(1, b"e") == NONE
            await cluster.settled(1, 2, 3)
            assert cluster.values(2) == [b"a", b"b", b"d", b"e"]

    @simulated
    async def test_a_topic_need_not_have_more_in_sync_than_replicas(self) -> None:
        async with running_cluster(brokers=1) as cluster:
            await cluster.create(1, configs={"min.insync.replicas": "2"})
            assert await cluster.produce(1, b"a") == NONE

    @simulated
    async def test_a_bound_that_rises_counts_at_once_with_the_isr_it_comes_with(self) -> None:
        """One image may bring both: by the rules of before, what only the leader has would be
        acknowledged, while 2 is eligible to lead by the new ones."""
        async with running_cluster(LAG) as cluster:
            await cluster.create(1, 2, configs={"min.insync.replicas": "1"})
            await cluster.produce(1, b"a")
            cluster.part(2)
            await cluster.produce(1, b"b", acks=1)
            assert cluster.partition(1).high_watermark == 1
            cluster.lagging.add(1)
            await cluster.configure("t", "min.insync.replicas", "2")
            await cluster.fence(2)
            await cluster.change(isr=(1,), elr=(2,))
            await cluster.catch_up(1)
            assert cluster.partition(1).isr == (1,)
            assert cluster.partition(1).high_watermark == 1


class TestJoining:
    @simulated
    async def test_not_while_fenced_or_shutting_down(self) -> None:
        async with running_cluster(LAG) as cluster:
            epoch = cluster.image.brokers[2].broker_epoch
            await cluster.decide(BrokerChanged(2, epoch, in_controlled_shutdown=True))
            await cluster.create(1, 2, isr=(1,))
            await cluster.produce(1, b"a")
            await trio.sleep(20)
            assert cluster.values(2) == [b"a"] and cluster.altered == []
            await cluster.decide(BrokerChanged(2, epoch, in_controlled_shutdown=False))
            await cluster.until(lambda: cluster.isr() == (1, 2))

    @simulated
    async def test_another_incarnation_has_to_fetch_under_its_own_epoch(self) -> None:
        async with running_cluster(LAG) as cluster:
            await cluster.create(1, 2, isr=(1,))
            await cluster.until(lambda: cluster.isr() == (1, 2))
            (sent,) = cluster.altered[0].topics[0].partitions
            reported = {s.broker_id: s.broker_epoch for s in sent.new_isr_with_epochs}
            assert reported == {n: cluster.image.brokers[n].broker_epoch for n in (1, 2)}
            # A fetch with the epoch of an earlier registration is refused.
            stale = cluster.image.brokers[2].broker_epoch
            await cluster.stop(2)
            await cluster.change(isr=(1,))
            await cluster.start(2)
            with pytest.raises(Exception, match="has registered again"):
                follower_fetches(cluster.partition(1), 2, stale, 0)
            await cluster.until(lambda: cluster.isr() == (1, 2))

    @simulated
    async def test_the_watermark_waits_for_who_is_about_to_join(self) -> None:
        async with running_cluster(LAG) as cluster:
            await cluster.create(1, 2, isr=(1,))
            await cluster.until(lambda: cluster.isr() == (1, 2))
            cluster.alter_errors = [ErrorCode.INELIGIBLE_REPLICA]
            await cluster.change(isr=(1,))
            await cluster.until(lambda: cluster.isr() == (1, 2))
            assert len(cluster.altered) == 3

    @simulated
    async def test_an_image_that_brings_what_an_answer_told_undoes_nothing(self) -> None:
        """Or a member that is committed already would not be waited for."""
        async with running_cluster(LAG) as cluster:
            cluster.part(2, 3)
            await cluster.create(1, 2, 3, isr=(1,))
            partition = cluster.partition(1)
            epochs = {n: cluster.image.brokers[n].broker_epoch for n in (2, 3)}
            cluster.parted.add(frozenset((1, CONTROLLER)))
            follower_fetches(partition, 2, epochs[2], 0)
            first = partition.proposal
            assert first is not None and first.joining == 2
            epoch = partition.partition_epoch
            partition.accepted(first, (1, 2), partition.leader_epoch, epoch + 1)
            follower_fetches(partition, 3, epochs[3], 0)
            second = partition.proposal
            assert second is not None and second.joining == 3
            assert second.partition_epoch == epoch + 1
            await cluster.change(isr=(1, 2))
            assert partition.partition_epoch == epoch + 1 and partition.proposal is second
            partition.append(make_batch(), now_ms=NOW)
            follower_fetches(partition, 2, epochs[2], 1)
            assert partition.high_watermark == 0, "3 may be in sync by now"
            await cluster.change(isr=(1, 2))
            assert partition.proposal is not second, "the controller knew more than that"

    @simulated
    async def test_two_that_come_at_once_join_one_after_the_other_without_a_record(self) -> None:
        async with running_cluster(
            LAG, brokers=4, replica__fetch__wait__max__ms="60000"
        ) as cluster:
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            begun = trio.current_time()
            await cluster.change(replicas=(1, 2, 3, 4))
            await cluster.until(lambda: set(cluster.isr()) == {1, 2, 3, 4})
            assert trio.current_time() - begun < 1

    @pytest.mark.parametrize(
        "code",
        [
            ErrorCode.INELIGIBLE_REPLICA,
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ],
    )
    def test_it_asks_again_where_nothing_was_done(self, code: int) -> None:
        @simulated
        async def run() -> None:
            async with running_cluster(LAG) as cluster:
                cluster.alter_errors = [code, code]
                await cluster.create(1, 2, isr=(1,))
                await cluster.until(lambda: cluster.isr() == (1, 2))
                assert len(cluster.altered) == 3
                assert await cluster.produce(1, b"a") == NONE

        run()

    @pytest.mark.parametrize(
        "code",
        [
            ErrorCode.INVALID_UPDATE_VERSION,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.NEW_LEADER_ELECTED,
        ],
    )
    def test_it_waits_for_the_image_where_the_controller_knows_more(self, code: int) -> None:
        @simulated
        async def run() -> None:
            async with running_cluster(LAG) as cluster:
                cluster.alter_errors = [code]
                await cluster.create(1, 2, isr=(1,))
                await trio.sleep(30)
                assert len(cluster.altered) == 1
                assert cluster.partition(1).proposal is not None
                await cluster.change(isr=(1,))
                await cluster.until(lambda: cluster.isr() == (1, 2))

        run()

    @simulated
    async def test_an_answer_that_an_image_overtook_changes_nothing(self) -> None:
        async with running_cluster(LAG) as cluster:
            await cluster.create(1, 2, 3, isr=(1,))
            await cluster.until(lambda: len(cluster.isr()) == 3)
            partition = cluster.partition(1)
            epoch = partition.partition_epoch
            partition.shrink(trio.current_time() + 1000)
            assert not cluster.partition(1).proposal, "both have every record: neither leaves"
            await cluster.produce(1, b"a", acks=1)
            cluster.part(2, 3)
            await cluster.produce(1, b"b", acks=1)
            partition.shrink(trio.current_time() + 1000)
            proposal = partition.proposal
            assert proposal is not None
            assert [n for n, _ in proposal.isr] == [1]
            await cluster.change(leader=1)
            partition.accepted(proposal, (1,), 0, epoch + 1)
            assert set(partition.isr) == {1, 2, 3}, "it was of the last leader epoch"
            assert partition.high_watermark <= 1


class TestSessionsOfManyPartitions:
    """A partition that does not move is not looked at, and its followers are in sync all the
    same."""

    @pytest.mark.thorough
    @simulated
    async def test_who_was_idle_for_long_has_its_time_when_something_comes(self) -> None:
        async with running_cluster(LAG) as cluster:
            await cluster.create(1, 2, partitions=3)
            await cluster.produce(1, b"a")
            await trio.sleep(1000)
            cluster.part(2)
            gone = trio.current_time()
            await cluster.produce(1, b"b", acks=1)
            await cluster.until(lambda: cluster.isr() == (1,))
            # Its last request was up to half a second before; then it has 10 s, and up to 5 until
            # somebody looks.
            assert 9 <= trio.current_time() - gone <= 16

    @simulated
    async def test_only_what_moved_is_looked_at(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2, partitions=50)
            for number in range(50):
                await cluster.produce(1, b"a", number=number)
            await trio.sleep(2)
            (session,) = cluster.broker(1).data.fetch_sessions._sessions.values()
            assert len(session.partitions) == 50 and session.dirty == {}
            cluster.partition(1, number=7).appended()
            assert [fetched.partition for fetched in session.dirty.values()] == [7]
            await cluster.produce(1, b"b", number=7)
            await trio.sleep(2)
            assert session.dirty == {}
            assert cluster.partition(2, number=7).high_watermark == 2

    @pytest.mark.thorough
    @simulated
    async def test_what_did_not_fit_comes_with_the_next_answer(self) -> None:
        async with running_cluster(
            brokers=2,
            replica__fetch__response__max__bytes="150000",
            replica__fetch__max__bytes="60000",
            replica__fetch__wait__max__ms="60000",
        ) as cluster:
            await cluster.create(1, 2, partitions=20)
            cluster.part(2)
            for number in range(20):
                for _ in range(4):
                    await cluster.produce(1, bytes(40_000), number=number, acks=1)
            cluster.heal()
            begun = trio.current_time()
            for number in range(20):
                await cluster.settled(1, 2, number=number)
            assert trio.current_time() - begun < 70, "a poll at the most, for the watermarks"

    @simulated
    async def test_a_partition_that_is_made_again_is_watched_again(self) -> None:
        async with running_cluster(brokers=2, replica__fetch__wait__max__ms="60000") as cluster:
            await cluster.create(1, 2, topic="other")
            await cluster.create(1, 2)
            await cluster.produce(1, b"a")
            await cluster.change(replicas=(2,), isr=(2,), leader=2)
            await cluster.change(replicas=(2, 1))
            await cluster.until(lambda: set(cluster.isr()) == {1, 2})
            await cluster.change(leader=1)
            for _ in range(3):
                begun = trio.current_time()
                assert await cluster.produce(1, b"b") == NONE
                assert trio.current_time() - begun < 1
            await trio.sleep(61)
            await cluster.settled(1, 2)
