"""The client on asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import trio
from clients.fixtures import Kafka
from clients.topics import configure_group

from pk.client import ConsumerRecord, KafkaError, NewTopic, NoTransaction, TopicPartition
from pk.client.aio import (
    Consumer,
    open_admin,
    open_consumer,
    open_producer,
    open_share_consumer,
)

Fresh = Callable[[str], str]

EARLIEST = {"auto.offset.reset": "earliest"}


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a program; it has three minutes, and leaves no task."""

    async def whole() -> None:
        async with asyncio.timeout(180):
            await main
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(whole(), debug=True)


async def create(kafka: Kafka, topic: str, partitions: int = 1) -> None:
    async with open_admin(kafka.bootstrap) as admin:
        answers = await admin.create_topics([NewTopic(topic, partitions)])
        assert topic in answers.ok, answers


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    async for record in consumer:
        found.append(record)
        if len(found) == count:
            break
    return found


def test_records_are_sent_and_read(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("aio")

    async def main() -> None:
        await create(kafka, topic, 2)
        values = [b"%d" % n for n in range(1000)]
        async with open_producer(kafka.bootstrap) as producer:
            deliveries = [await producer.send(topic, v, partition=0) for v in values]
            placed = await asyncio.gather(*deliveries)
            assert [metadata.offset for metadata in placed] == list(range(1000))
            await (await producer.send_many(topic, [(None, b"many")] * 3, partition=1)).wait()
        async with open_consumer(kafka.bootstrap, EARLIEST) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            assert [record.value for record in await read(consumer, 1000)] == values
            consumer.assign([TopicPartition(topic, 1)])
            assert len(await read(consumer, 3)) == 3

    run(main())


def test_a_poll_that_is_cancelled_loses_no_record(kafka: Kafka, fresh: Fresh) -> None:
    """Whenever it is cancelled: the limits end before, while and after records arrive."""
    topic = fresh("aio")
    count = 300

    async def main() -> None:
        await create(kafka, topic)

        async def send() -> None:
            async with open_producer(kafka.bootstrap, {"linger.ms": 0}) as producer:
                for n in range(count):
                    await (await producer.send(topic, b"%d" % n))

        sending = asyncio.create_task(send())
        found: list[bytes | None] = []
        cancelled = 0
        async with open_consumer(kafka.bootstrap, EARLIEST) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            while len(found) < count:
                poll = asyncio.create_task(consumer.poll(records_max=1))
                for _ in range(len(found) % 7):
                    await asyncio.sleep(0)
                poll.cancel()
                try:
                    found += [record.value for record in await poll]
                except asyncio.CancelledError:
                    cancelled += 1
                if cancelled % 50 == 0:
                    found += [record.value for record in await consumer.poll(timeout_ms=100)]
        await sending
        assert found == [b"%d" % n for n in range(count)]
        assert cancelled

    run(main())


def test_callbacks_of_a_rebalance_run_on_asyncio(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("aio"), fresh("group")
    told: list[tuple[str, int]] = []

    async def main() -> None:
        await create(kafka, topic, 2)
        config = EARLIEST | {"group.id": group, "enable.auto.commit": False}
        async with open_producer(kafka.bootstrap) as producer:
            await producer.send(topic, b"one", partition=0)
        async with open_consumer(kafka.bootstrap, config) as consumer:

            async def assigned(partitions: tuple[TopicPartition, ...]) -> None:
                await asyncio.sleep(0)  # fails outside of an asyncio task
                told.append(("assigned", len(partitions)))

            async def revoked(partitions: tuple[TopicPartition, ...]) -> None:
                await consumer.commit()
                told.append(("revoked", len(partitions)))

            consumer.subscribe([topic], on_assigned=assigned, on_revoked=revoked)
            assert [r.value for r in await read(consumer, 1)] == [b"one"]
        async with open_admin(kafka.bootstrap) as admin:
            committed = await admin.list_group_offsets(group)
        stored = committed.value(TopicPartition(topic, 0))
        assert stored is not None and stored.offset == 1
        assert told == [("assigned", 2), ("revoked", 2)]

    run(main())


def test_a_block_that_raises_keeps_its_error_and_commits_nothing(
    kafka: Kafka, fresh: Fresh
) -> None:
    topic, group = fresh("aio"), fresh("group")
    configure_group(kafka, group, {"share.auto.offset.reset": "earliest"})

    async def main() -> None:
        await create(kafka, topic)
        async with open_producer(kafka.bootstrap) as producer:
            await producer.send(topic, b"one")
        error = KeyError("mine")
        with pytest.raises(KeyError) as caught:
            async with open_consumer(kafka.bootstrap, EARLIEST | {"group.id": group}) as consumer:
                consumer.subscribe([topic])
                assert len(await read(consumer, 1)) == 1
                raise error
        assert caught.value is error
        async with open_admin(kafka.bootstrap) as admin:
            assert (await admin.list_group_offsets(group)).ok == {}

    run(main())


def test_transactions_commit_and_abort(kafka: Kafka, fresh: Fresh) -> None:
    topic, name = fresh("aio"), fresh("id")

    async def main() -> None:
        await create(kafka, topic)
        async with open_producer(kafka.bootstrap, {"transactional.id": name}) as producer:
            async with producer.transaction():
                await producer.send(topic, b"in a block")
            with pytest.raises(ValueError):
                async with producer.transaction():
                    await producer.send(topic, b"aborted")
                    raise ValueError
            await producer.begin_transaction()
            await producer.send(topic, b"by hand")
            await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.send(topic, b"aborted by hand")
            await producer.abort_transaction()
            with pytest.raises(NoTransaction):
                await producer.commit_transaction()
            cancelled = asyncio.create_task(_cancelled_inside(producer.transaction))
            await asyncio.wait([cancelled])
            assert cancelled.cancelled()
            async with producer.transaction():
                await producer.send(topic, b"last")
        committed = EARLIEST | {"isolation.level": "read_committed"}
        async with open_consumer(kafka.bootstrap, committed) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            values = [record.value for record in await read(consumer, 3)]
        assert values == [b"in a block", b"by hand", b"last"]

    run(main())


async def _cancelled_inside(transaction: Callable[[], Any]) -> None:
    async with transaction():
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(3600)


def test_share_consumers_take_records(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("aio"), fresh("group")
    configure_group(kafka, group, {"share.auto.offset.reset": "earliest"})

    async def main() -> None:
        await create(kafka, topic)
        async with open_producer(kafka.bootstrap) as producer:
            await producer.send(topic, b"job")
        async with open_share_consumer(kafka.bootstrap, {"group.id": group}) as consumer:
            consumer.subscribe([topic])
            found = []
            while not found:
                found = await consumer.poll(timeout_ms=1000)
            assert [record.value for record in found] == [b"job"]
            assert await consumer.commit() == {TopicPartition(topic, 0): None}

    run(main())


def test_errors_are_those_of_the_client(kafka: Kafka, fresh: Fresh) -> None:
    async def main() -> None:
        async with open_producer(kafka.bootstrap, {"max.request.size": 1000}) as producer:
            with pytest.raises(KafkaError, match="max.request.size is 1000"):
                await producer.send(fresh("aio"), b"x" * 2000)
        with pytest.raises(ValueError, match="linger"):
            async with open_producer(kafka.bootstrap, {"linger": 5}):
                raise AssertionError("it was opened")
        async with open_consumer("127.0.0.1:1", {"default.api.timeout.ms": 500}) as consumer:
            with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
                await consumer.partitions("t")

    run(main())


def test_nothing_is_left_and_trio_can_begin_again(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("aio")

    async def main() -> None:
        with pytest.raises(RuntimeError):
            trio.current_time()
        async with open_producer(kafka.bootstrap) as one, open_producer(kafka.bootstrap) as two:
            await asyncio.gather(await one.send(topic, b"1"), await two.send(topic, b"2"))
        with pytest.raises(RuntimeError):
            trio.current_time()

    asyncio.run(create(kafka, topic))
    for _ in range(3):
        asyncio.run(main())
    # Trio's own threads that wait for work end by themselves.
    names = {thread.name for thread in threading.enumerate()}
    assert not any("asyncio" in name for name in names)
