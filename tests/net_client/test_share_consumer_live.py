"""The share consumer against a real broker: acknowledgements, delivery counts, locks, several
members."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from clients.fixtures import Kafka
from net_client.support import eventually, known, trio_test

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin
from pk.net.client.errors import ConfigError
from pk.net.client.producer import open_producer
from pk.net.client.results import ConfigChange, ConfigResource, NewTopic, ResourceType
from pk.net.client.share_consumer import (
    AcknowledgeType,
    ShareConsumer,
    ShareRecord,
    open_share_consumer,
)

Fresh = Callable[[str], str]
EXPLICIT = {"share.acknowledgement.mode": "explicit", "fetch.max.wait.ms": 100}
IMPLICIT = {"fetch.max.wait.ms": 100}


async def prepare(kafka: Kafka, topic: str, partitions: int = 1, **configs: str) -> None:
    """A topic, and a group of its name that begins at the first record."""
    async with open_admin(kafka.bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, partitions, 1)])
        await known(admin, topic, partitions)
        group = ConfigResource(ResourceType.GROUP, topic)
        changes = [ConfigChange("share.auto.offset.reset", "earliest")]
        changes += [ConfigChange(k.replace("_", "."), v) for k, v in configs.items()]
        answers = await admin.alter_configs({group: changes})
        assert not answers.errors, answers

        async def known_to_the_broker() -> bool:
            found = (await admin.describe_configs([group])).value(group)
            values = {config.name: config.value for config in found}
            return all(values[change.name] == change.value for change in changes)

        await eventually(known_to_the_broker, True)  # the controller of Apache answers before


async def fill(kafka: Kafka, topic: str, count: int, first: int = 0) -> None:
    """Records numbered from `first`, one batch a partition."""
    async with open_producer(kafka.bootstrap) as producer:
        rows = [(None, b"%d" % number) for number in range(first, first + count)]
        await (await producer.send_many(topic, rows)).wait()


@asynccontextmanager
async def member(kafka: Kafka, topic: str, config: dict[str, Any]) -> AsyncIterator[ShareConsumer]:
    async with open_share_consumer(kafka.bootstrap, {"group.id": topic, **config}) as consumer:
        consumer.subscribe([topic])
        yield consumer


async def take(consumer: ShareConsumer, count: int) -> list[ShareRecord]:
    """Take this many records, with as many polls as needed, without acknowledging them."""
    taken = await consumer.poll(records_max=count)
    while len(taken) < count:
        taken += await consumer.poll(records_max=count - len(taken))
    return taken


@trio_test
async def test_each_record_is_accepted_released_or_rejected(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("share")
    await prepare(kafka, topic)
    await fill(kafka, topic, 6)
    partition = TopicPartition(topic, 0)
    said = [AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT] * 2
    async with member(kafka, topic, EXPLICIT) as consumer:
        records = await take(consumer, 6)
        assert [record.delivery_count for record in records] == [1] * 6
        with pytest.raises(ValueError, match="6 records"):
            await consumer.poll(timeout_ms=0)
        for record, kind in zip(records, said, strict=True):
            consumer.acknowledge(record, kind)
        with pytest.raises(ValueError, match="was acknowledged"):
            consumer.acknowledge(records[0])
        assert await consumer.commit() == {partition: None}
        again: list[ShareRecord] = []
        while len(again) < 2:
            for record in await consumer.poll():
                again.append(record)
                consumer.acknowledge(record)
        assert [(r.value, r.delivery_count) for r in again] == [(b"1", 2), (b"4", 2)]
        assert await consumer.commit() == {partition: None}
        assert await consumer.commit() == {}


@trio_test
async def test_a_poll_accepts_what_the_one_before_returned(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("share")
    await prepare(kafka, topic, 2)
    await fill(kafka, topic, 20)
    seen: list[bytes | None] = []
    async with member(kafka, topic, IMPLICIT) as consumer:
        while len(seen) < 20:
            seen += [record.value for record in await consumer.poll(records_max=3)]
        assert consumer.subscription == {topic}
        assert {p.topic for p in consumer.assignment} == {topic}
    assert sorted(seen, key=lambda v: int(v or b"")) == [b"%d" % n for n in range(20)]
    await fill(kafka, topic, 1, first=20)
    async with member(kafka, topic, IMPLICIT) as consumer:
        assert [record.value for record in await consumer.poll()] == [b"20"]


@trio_test
async def test_a_block_that_fails_gives_its_records_back(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("share")
    await prepare(kafka, topic)
    await fill(kafka, topic, 3)
    with pytest.raises(RuntimeError, match="the work failed"):
        async with member(kafka, topic, IMPLICIT) as consumer:
            assert len(await take(consumer, 3)) == 3
            raise RuntimeError("the work failed")
    async with member(kafka, topic, IMPLICIT) as consumer:
        assert [r.delivery_count for r in await take(consumer, 3)] == [2, 2, 2]


@trio_test
async def test_members_share_a_partition(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("share")
    await prepare(kafka, topic)
    for number in range(20):
        await fill(kafka, topic, 1, first=number)
    seen: list[bytes | None] = []
    async with member(kafka, topic, EXPLICIT) as a, member(kafka, topic, EXPLICIT) as b:
        while len(seen) < 20:
            of_a = await a.poll(records_max=1)
            of_b = await b.poll(records_max=1)
            for consumer, records in ((a, of_a), (b, of_b)):
                seen += [record.value for record in records]
                for record in records:
                    consumer.acknowledge(record)
    assert sorted(int(value or b"") for value in seen) == list(range(20))


@trio_test
async def test_a_lock_that_runs_out_makes_the_record_anothers(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("share")
    await prepare(kafka, topic, share_record_lock_duration_ms="5000")
    await fill(kafka, topic, 1)
    async with (
        member(kafka, topic, EXPLICIT) as slow,
        member(kafka, topic, EXPLICIT) as other,
    ):
        (record,) = await take(slow, 1)
        (again,) = await take(other, 1)
        assert (again.offset, again.delivery_count) == (record.offset, 2)
        slow.acknowledge(record)
        (error,) = (await slow.commit()).values()
        assert isinstance(error, KafkaError) and error.code == ErrorCode.INVALID_RECORD_STATE
        other.acknowledge(again)
        assert list((await other.commit()).values()) == [None]


@trio_test
async def test_a_lock_is_renewed(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("share")
    await prepare(kafka, topic)
    await fill(kafka, topic, 2)
    async with member(kafka, topic, EXPLICIT) as consumer:
        first, second = await take(consumer, 2)
        consumer.acknowledge(first, AcknowledgeType.RENEW)
        consumer.acknowledge(second)
        assert list((await consumer.commit()).values()) == [None]
        assert await consumer.poll(timeout_ms=0) == []  # renewed records need not be settled first
        consumer.acknowledge(first, AcknowledgeType.RENEW)
        consumer.acknowledge(first)
        assert list((await consumer.commit()).values()) == [None]
        with pytest.raises(ValueError, match="not held"):
            consumer.acknowledge(first, AcknowledgeType.RENEW)
        with pytest.raises(ValueError, match="GAP"):
            consumer.acknowledge(second, AcknowledgeType.GAP)


@trio_test
async def test_never_more_records_than_asked_for(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("share")
    await prepare(kafka, topic)
    await fill(kafka, topic, 10)
    config = {**EXPLICIT, "share.acquire.mode": "record_limit"}
    async with member(kafka, topic, config) as strict, member(kafka, topic, EXPLICIT) as other:
        few = await strict.poll(records_max=3)
        assert [record.offset for record in few] == [0, 1, 2]
        rest = await take(other, 7)
        assert [record.offset for record in rest] == list(range(3, 10))


@pytest.mark.parametrize("config", [IMPLICIT, EXPLICIT])
@trio_test
async def test_a_loop_that_ends_keeps_only_what_it_was_given(
    kafka: Kafka, fresh: Fresh, config: dict[str, Any]
) -> None:
    topic = fresh("share")
    await prepare(kafka, topic)
    await fill(kafka, topic, 4)
    async with member(kafka, topic, config) as consumer:
        async for record in consumer:
            if config is EXPLICIT:
                consumer.acknowledge(record)
            if record.offset == 1:
                break
        (third,) = await consumer.poll(records_max=1)
        assert third.offset == 2
        consumer.acknowledge(third)
    async with member(kafka, topic, EXPLICIT) as consumer:
        (last,) = await take(consumer, 1)
        assert (last.offset, last.delivery_count) == (3, 2)
        consumer.acknowledge(last)


def test_a_share_consumer_needs_a_group() -> None:
    async def main() -> None:
        async with open_share_consumer("localhost:1", {}):
            pass

    with pytest.raises(ConfigError, match=r"group\.id"):
        trio.run(main)
