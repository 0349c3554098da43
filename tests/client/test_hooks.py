"""`on_send` and `on_records`: the records they see, their changes, and the results they get."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest
import trio
from clients.fixtures import Kafka

from pk.client import (
    Closed,
    ConsumerRecord,
    KafkaError,
    NewTopic,
    OutgoingRecord,
    RecordMetadata,
    ShareRecord,
    TopicPartition,
    aio,
    blocking,
    open_consumer,
    open_producer,
)

Fresh = Callable[[str], str]

EARLIEST = {"auto.offset.reset": "earliest"}


class Seen:
    """Hooks that remember."""

    def __init__(self) -> None:
        self.settled: list[tuple[str, RecordMetadata | BaseException]] = []
        self.polls: list[list[bytes | None]] = []
        self.threads: set[int] = set()

    def on_send(self, record: OutgoingRecord) -> Callable[[RecordMetadata | BaseException], None]:
        self.threads.add(threading.get_ident())
        name = (record.value or b"").decode()[:5]
        record.headers.append(("seen", name.encode()))
        return lambda result: self.settled.append((name, result))

    def on_records(self, records: Sequence[ConsumerRecord | ShareRecord], start_ns: int) -> None:
        assert start_ns > 1_700_000_000_000_000_000
        self.threads.add(threading.get_ident())
        self.polls.append([record.value for record in records])

    def offsets(self) -> dict[str, int]:
        return {
            name: result.offset
            for name, result in self.settled
            if isinstance(result, RecordMetadata)
        }


@pytest.fixture
def topic(kafka: Kafka, fresh: Fresh) -> str:
    name = fresh("hooks")
    with blocking.open_admin(kafka.bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1)]).value(name)
    return name


OFFSETS = {"one": 0, "two": 1, "three": 2, "four": 3, "five": 4}
ROWS = [(None, b"four", (("h", b"1"),), 1_000, 0), (None, b"five", (), None, None)]


def check(kafka: Kafka, topic: str) -> None:
    """Each record has the header that the hook added, after its own."""
    with blocking.open_consumer(kafka.bootstrap, EARLIEST) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[ConsumerRecord] = []
        while len(found) < 5:
            found += consumer.poll()
    assert [record.headers[-1] for record in found] == [("seen", n.encode()) for n in OFFSETS]
    assert found[3].headers[0] == ("h", b"1") and found[3].timestamp == 1_000


def test_on_trio(kafka: Kafka, topic: str) -> None:
    seen = Seen()

    async def main() -> None:
        async with open_producer(kafka.bootstrap, on_send=seen.on_send) as producer:
            await (await producer.send(topic, b"one"))
            producer.send_nowait(topic, b"two")
            runs = await (await producer.send_many(topic, [(None, b"three")])).wait()
            assert [(run.offset, run.count) for run in runs] == [(2, 1)]
            runs = await (await producer.send_rows(topic, ROWS)).wait()
            assert [(run.offset, run.count) for run in runs] == [(3, 2)]
        assert seen.offsets() == OFFSETS
        async with open_consumer(kafka.bootstrap, EARLIEST, on_records=seen.on_records) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            assert len(await consumer.poll(records_max=2)) == 2
            left = 3
            async for _ in consumer:
                left -= 1
                if not left:
                    break
        assert seen.polls == [[b"one", b"two"], [b"three"], [b"four"], [b"five"]]

    trio.run(main)
    check(kafka, topic)


def test_on_asyncio(kafka: Kafka, topic: str) -> None:
    seen = Seen()

    async def main() -> None:
        async with aio.open_producer(kafka.bootstrap, on_send=seen.on_send) as producer:
            await (await producer.send(topic, b"one"))
            producer.send_nowait(topic, b"two")
            await producer.send_many(topic, [(None, b"three")])
            runs = await (await producer.send_rows(topic, ROWS)).wait()
            assert [(run.offset, run.count) for run in runs] == [(3, 2)]
        assert seen.offsets() == OFFSETS
        async with aio.open_consumer(
            kafka.bootstrap, EARLIEST, on_records=seen.on_records
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            while sum(map(len, seen.polls)) < 5:
                await consumer.poll()

    asyncio.run(main())
    check(kafka, topic)


def test_blocking_in_the_thread_of_the_program(kafka: Kafka, topic: str) -> None:
    seen = Seen()
    with blocking.open_producer(kafka.bootstrap, on_send=seen.on_send) as producer:
        producer.send(topic, b"one")
        producer.send(topic, b"two")
        producer.send_many(topic, [(None, b"three")])
        runs = producer.send_rows(topic, ROWS).result()
        assert [(run.offset, run.count) for run in runs] == [(3, 2)]
    assert seen.offsets() == OFFSETS
    with blocking.open_consumer(kafka.bootstrap, EARLIEST, on_records=seen.on_records) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while sum(map(len, seen.polls)) < 4:
            consumer.poll(records_max=2)
        consumer.poll_by_partition()
    assert [len(poll) for poll in seen.polls] == [2, 2, 1]
    assert seen.threads == {threading.get_ident()}
    check(kafka, topic)


def test_a_share_consumer_tells_of_its_records(kafka: Kafka, topic: str) -> None:
    seen = Seen()
    with (
        blocking.open_producer(kafka.bootstrap) as producer,
        blocking.open_share_consumer(
            kafka.bootstrap, {"group.id": topic}, on_records=seen.on_records
        ) as consumer,
    ):
        consumer.subscribe([topic])
        while not seen.polls:  # the group begins at the end, at some time
            producer.send(topic, b"x").result()
            consumer.poll(timeout_ms=100)
    assert seen.polls[0][0] == b"x"


def test_each_half_of_a_split_batch_tells_of_its_own(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("hooks")
    with blocking.open_admin(kafka.bootstrap) as admin:
        limits: dict[str, str | None] = {"max.message.bytes": "1000"}
        admin.create_topics([NewTopic(topic, 1, configs=limits)]).value(topic)
    seen = Seen()
    config = {"linger.ms": 60_000}
    with blocking.open_producer(kafka.bootstrap, config, on_send=seen.on_send) as producer:
        names = [f"no-{n:02}" for n in range(8)]
        producer.send_many(topic, [(None, name.encode() + b"x" * 300) for name in names])
        producer.flush()
        assert producer.metrics()["batch-split-total"] >= 3
    assert seen.offsets() == {name: offset for offset, name in enumerate(names)}
    assert len(seen.settled) == 8


def test_a_record_that_is_not_sent_tells_why(kafka: Kafka, topic: str) -> None:
    seen = Seen()
    config = {"max.request.size": 1000, "linger.ms": 60_000}
    large = b"large" + b"x" * 2000

    async def main() -> None:
        async with open_producer(kafka.bootstrap, config, on_send=seen.on_send) as producer:
            with pytest.raises(KafkaError):
                await producer.send(topic, large)
            with pytest.raises(KafkaError):
                await producer.send_many(topic, [(None, large), (None, b"after")])
            with trio.CancelScope() as scope:
                scope.cancel()
                await producer.send(topic, b"never")

    trio.run(main)
    with (
        pytest.raises(ZeroDivisionError),
        blocking.open_producer(kafka.bootstrap, config, on_send=seen.on_send) as producer,
    ):
        with pytest.raises(KafkaError):
            producer.send(topic, large).result()
        producer.send(topic, b"drop")
        raise ZeroDivisionError
    why = [(name, type(error)) for name, error in seen.settled]
    assert why == [
        ("large", KafkaError),
        ("large", KafkaError),
        ("after", KafkaError),
        ("never", trio.Cancelled),
        ("large", KafkaError),
        ("drop", Closed),
    ]
