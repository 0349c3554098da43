"""A partition without a leader holds up no other, and is read once somebody leads it."""

from __future__ import annotations

import pytest
import trio
from net_client.support import scripted_broker, trio_test
from two_partitions import Two

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin
from pk.net.client.consumer import Consumer, open_consumer
from pk.net.client.results import LATEST

LED, DEAD = TopicPartition("t", 0), TopicPartition("t", 1)
CONFIG = {"auto.offset.reset": "earliest", "retry.backoff.ms": 1, "retry.backoff.max.ms": 10}


async def read_of(consumer: Consumer) -> list[bytes | None]:
    with trio.fail_after(60):
        return [record.value for record in await consumer.poll()]


@trio_test
async def test_a_partition_without_a_leader_at_first_is_read_when_it_gets_one() -> None:
    cluster = Two()
    cluster.leaders[1] = -1
    async with (
        scripted_broker(cluster.handle) as cluster.broker,
        open_consumer(cluster.broker.address, CONFIG) as consumer,
    ):
        consumer.assign([LED, DEAD])
        assert await read_of(consumer) == [b"0"]
        assert consumer.position_nowait(DEAD) is None
        cluster.leaders[1] = 1
        assert await read_of(consumer) == [b"1"]


@trio_test
async def test_a_leader_that_is_lost_while_it_is_read_holds_up_no_other_and_may_return() -> None:
    cluster = Two()
    async with (
        scripted_broker(cluster.handle) as cluster.broker,
        open_consumer(cluster.broker.address, CONFIG) as consumer,
    ):
        consumer.assign([LED, DEAD])
        read: list[bytes | None] = []
        while len(read) < 2:
            read += await read_of(consumer)
        # Both have a new epoch, so that both positions must be checked; one cannot be.
        cluster.epoch, cluster.leaders[1] = 1, -1
        await consumer.cluster.refresh(["t"])
        cluster.records = [2, 2]
        assert await read_of(consumer) == [b"0"]
        cluster.epoch, cluster.leaders[1] = 2, 1
        assert await read_of(consumer) == [b"1"]


@pytest.mark.parametrize("thorough", [False, True])
@trio_test
async def test_where_stragglers_are_not_waited_for_neither_is_a_leader(thorough: bool) -> None:
    """The command line's mode: partitions with a leader are answered at once, regardless of the
    time-out, even for a command that changes something and needs every answer."""
    cluster = Two()
    cluster.leaders[1] = -1
    config = {"default.api.timeout.ms": 600_000, "pk.straggler.timeout.ms": 500}
    async with (
        scripted_broker(cluster.handle) as cluster.broker,
        open_admin(cluster.broker.address, config) as admin,
    ):
        admin.thorough = thorough
        with trio.fail_after(60):
            found = await admin.list_offsets({LED: LATEST, DEAD: LATEST})
    assert LED in found.ok
    error = found.errors[DEAD]
    assert isinstance(error, KafkaError) and error.code == ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.parametrize("leader", [-1, 1])
@trio_test
async def test_what_a_program_asks_for_itself_still_ends_with_an_error(leader: int) -> None:
    cluster = Two()
    cluster.leaders[1] = leader
    async with scripted_broker(cluster.handle) as cluster.broker:
        # If it has a leader, the answer ends the wait.
        config = CONFIG | {"default.api.timeout.ms": 60_000 if leader >= 0 else 500}
        async with open_consumer(cluster.broker.address, config) as consumer:
            found = await consumer.end_offsets([DEAD])
            assert (DEAD in found.ok) == (leader >= 0)
