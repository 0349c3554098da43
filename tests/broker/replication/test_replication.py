"""Followers copy their leader: byte for byte, its high watermark, its log start; and which requests
wait for them."""

import pytest
import trio
import trio.testing
from broker.cluster import running_cluster
from group.brokers import simulated

from pk.core.errors import ErrorCode
from pk.core.record.compress import Codec

NONE = ErrorCode.NONE


class TestCopying:
    @pytest.mark.parametrize("codec", list(Codec))
    def test_all_codecs_byte_for_byte(self, codec: Codec) -> None:
        @simulated
        async def run() -> None:
            async with running_cluster() as cluster:
                await cluster.create(1, 2, 3)
                for i in range(5):
                    values = [b"%d %d " % (i, n) * 50 for n in range(20)]
                    assert await cluster.produce(1, *values, codec=codec) == NONE
                await cluster.settled(1, 2, 3)
                assert cluster.partition(2).log.state.log_end_offset == 100
                assert cluster.partition(3).log.state.epochs.entries == [(0, 0)]

        run()

    @simulated
    async def test_acks_all_waits_for_all_in_sync_and_acks_1_for_nobody(self) -> None:
        async with running_cluster() as cluster:
            await cluster.create(1, 2, 3)
            cluster.part(3)
            assert await cluster.produce(1, b"a", acks=1) == NONE
            begun = trio.current_time()
            assert await cluster.produce(1, b"b") == ErrorCode.REQUEST_TIMED_OUT
            assert trio.current_time() - begun == 1
            assert cluster.partition(1).high_watermark == 0
            cluster.heal()
            assert await cluster.produce(1, b"c", timeout_ms=5000) == NONE
            await cluster.settled(1, 2, 3)
            assert cluster.values(3) == [b"a", b"b", b"c"]

    @simulated
    async def test_an_idle_follower_learns_the_high_watermark_with_its_next_answer(self) -> None:
        async with running_cluster() as cluster:
            await cluster.create(1, 2, 3)
            await cluster.produce(1, b"a")
            assert cluster.partition(1).high_watermark == 1
            await cluster.settled(1, 2, 3)

    @simulated
    async def test_who_is_new_copies_what_was_there(self) -> None:
        async with running_cluster() as cluster:
            await cluster.create(1)
            for i in range(50):
                await cluster.produce(1, b"%d" % i * 1000)
            await cluster.change(replicas=(1, 2, 3))
            await cluster.until(lambda: set(cluster.isr()) == {1, 2, 3})
            await cluster.settled(1, 2, 3)

    @simulated
    async def test_a_replica_that_goes_takes_its_log_along(self) -> None:
        async with running_cluster() as cluster:
            await cluster.create(1, 2, 3, configs={"file.delete.delay.ms": "1"})
            await cluster.produce(1, b"a")
            await cluster.change(replicas=(1, 2), isr=(1, 2))
            assert cluster.broker(3).data.replicas.find("t", 0) is None
            await cluster.until(
                lambda: not [n for n in cluster.disk(3).list("/data") if n.startswith("t-0")]
            )
            assert await cluster.produce(1, b"b") == NONE
            await cluster.settled(1, 2)
