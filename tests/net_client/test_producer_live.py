"""The producer against a real broker: acknowledged records are in the log, once and in order,
despite faults on the way."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import trio
from clients.fixtures import Kafka
from msgspec.structs import replace
from net_client.support import Cutter, eventually, trio_test

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin
from pk.net.client.consumer import open_consumer
from pk.net.client.errors import BufferExhausted, Closed
from pk.net.client.partitioner import partition_for_key
from pk.net.client.producer import BatchDelivered, Delivery, Producer, open_producer
from pk.net.client.results import NewTopic
from pk.net.client.subscription import ConsumerRecord

Fresh = Callable[[str], str]


async def create(kafka: Kafka, name: str, partitions: int = 1, **configs: str) -> None:
    # Kept for ever, or retention would come upon records of 1970 in the middle of a test.
    options: dict[str, str | None] = {"retention.ms": "-1"}
    options |= {key.replace("_", "."): value for key, value in configs.items()}
    async with open_admin(kafka.bootstrap) as admin:
        answers = await admin.create_topics([NewTopic(name, partitions, 1, configs=options)])
        assert name in answers.ok, answers


async def read(kafka: Kafka, topic: str, count: int, partitions: int = 1) -> list[ConsumerRecord]:
    """All there is, which has to be `count` records."""
    config = {"auto.offset.reset": "earliest"}
    records: list[ConsumerRecord] = []
    async with open_consumer(kafka.bootstrap, config) as consumer:
        assigned = [TopicPartition(topic, p) for p in range(partitions)]
        consumer.assign(assigned)
        ends = await consumer.end_offsets(assigned)
        while len(records) < count:
            records += await consumer.poll()
        positions = {p: await consumer.position(p) for p in assigned}
        assert positions == {p: end.offset for p, end in ends.ok.items()}
    return records


async def ends_at(kafka: Kafka, topic: str, expected: int) -> None:
    """Wait for a record whose broker says nothing of it."""
    here = TopicPartition(topic, 0)
    async with open_consumer(kafka.bootstrap) as consumer:

        async def end() -> int | None:
            ends = await consumer.end_offsets([here])
            return ends.ok[here].offset if here in ends.ok else None

        await eventually(end, expected)


def test_records_arrive_as_they_were_sent(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("sent")

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 3)
        async with open_producer(kafka.bootstrap) as producer:
            first = await producer.send(
                topic, b"v", key=b"k", headers=[("a", b"1"), ("a", None)], timestamp_ms=1234
            )
            where = await first
            other = (where.partition + 1) % 3
            empty = await producer.send(topic, None, key=b"", partition=other)
            assert where.partition == partition_for_key(b"k", 3)
            assert (where.offset, where.timestamp_ms) == (0, 1234)
            assert (await empty.wait()).partition == other
            assert first.done
        records = {r.partition: r for r in await read(kafka, topic, 2, 3)}
        record = records[where.partition]
        assert (record.key, record.value, record.timestamp) == (b"k", b"v", 1234)
        assert record.headers == (("a", b"1"), ("a", None))
        assert (records[other].key, records[other].value) == (b"", None)

    main()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_many_records_by_every_codec(kafka: Kafka, fresh: Fresh, codec: str) -> None:
    topic = fresh(f"many-{codec}")
    generator = random.Random(codec)
    pairs = [
        (
            generator.choice([None, b"key-%d" % generator.randrange(40)]),
            b"%d:" % number + b"x" * generator.randrange(300),
        )
        for number in range(5000)
    ]

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 4)
        reported: list[BatchDelivered] = []
        config = {"compression.type": codec, "batch.size": 8192}
        async with open_producer(kafka.bootstrap, config, on_delivery=reported.append) as producer:
            runs = await (await producer.send_many(topic, pairs)).wait()
        assert sum(run.count for run in runs) == len(pairs)
        assert sum(batch.count for batch in reported) == len(pairs)
        assert all(batch.error is None for batch in reported)
        records = await read(kafka, topic, len(pairs), 4)
        sent = {(b.partition.partition, r.offset): r for b in reported for r in b.records()}
        for record in records:
            told = sent.pop((record.partition, record.offset))
            assert (told.key, told.value) == (record.key, record.value)
            assert told.timestamp_ms == record.timestamp
        assert not sent
        assert sorted((r.key or b"", r.value) for r in records) == sorted(
            (key or b"", value) for key, value in pairs
        )
        for key in {key for key, _ in pairs if key is not None}:
            theirs = [r.value for r in records if r.key == key]
            assert theirs == [value for k, value in pairs if k == key]

    main()


@pytest.mark.parametrize("first_key", [None, b"k"])
def test_with_and_without_keys_records_keep_their_order(
    kafka: Kafka, fresh: Fresh, first_key: bytes | None
) -> None:
    topic = fresh("order")
    keys = [first_key, None, b"k", None, b"l", None, None, b"k"]
    pairs = [(key, b"%d" % i) for i, key in enumerate(keys)]
    rows = [(key, b"%d" % i, (("h", b"%d" % i),), 1000 + i, None) for i, key in enumerate(keys)]

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 1)
        async with open_producer(kafka.bootstrap) as producer:
            await (await producer.send_many(topic, pairs)).wait()
            runs = await (await producer.send_rows(topic, rows)).wait()
        assert [(run.offset, run.count) for run in runs] == [(len(keys), len(keys))]
        records = await read(kafka, topic, 2 * len(keys), 1)
        assert [(r.key, r.value) for r in records] == [*pairs, *pairs]
        later = records[len(keys) :]
        assert [(r.headers, r.timestamp) for r in later] == [(row[2], row[3]) for row in rows]

    main()


def test_rows_go_where_they_say(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("rows")

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 3)
        async with open_producer(kafka.bootstrap, {"batch.size": 300}) as producer:
            rows = [(b"k", b"%03d" % i, (), None, i % 3) for i in range(300)]
            runs = await (await producer.send_rows(topic, rows)).wait()
            assert sum(run.count for run in runs) == 300
            with pytest.raises(KafkaError, match="has no partition 3"):
                await producer.send_rows(topic, [(None, b"x", (), None, 3)])
            with pytest.raises(KafkaError, match=r"max\.request\.size"):
                await producer.send_rows(topic, [(None, b"x" * 1_048_600, (), None, None)])
        for record in await read(kafka, topic, 300, 3):
            assert record.value is not None and int(record.value) % 3 == record.partition

    main()


@pytest.mark.parametrize("cut", [{1}, {2, 3}, {1, 2, 4, 7, 11}], ids=str)
def test_answers_lost_on_the_way_neither_lose_nor_repeat_records(
    kafka: Kafka, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, cut: set[int]
) -> None:
    topic = fresh("cut")
    count = 3000

    @trio_test
    async def main() -> None:
        await create(kafka, topic)
        cutter = Cutter(monkeypatch, 0, cut)
        config = {"batch.size": 1024, "linger.ms": 0, "retry.backoff.ms": 10}
        async with open_producer(kafka.bootstrap, config) as producer:
            deliveries = []
            for number in range(count):
                deliveries.append(await producer.send(topic, b"%06d" % number))
            offsets = [(await delivery).offset for delivery in deliveries]
        assert cutter.cuts
        assert all(offset in (number, -1) for number, offset in enumerate(offsets))
        records = await read(kafka, topic, count)
        assert [r.value for r in records] == [b"%06d" % number for number in range(count)]

    main()


def test_a_batch_too_large_for_the_broker_is_split(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("split")
    values = [b"%03d" % number + b"x" * 997 for number in range(40)]

    @trio_test
    async def main() -> None:
        await create(kafka, topic, max_message_bytes="5000")
        config = {"batch.size": 20_000, "linger.ms": 1000}
        async with open_producer(kafka.bootstrap, config) as producer:
            single = [await producer.send(topic, value) for value in values]
            bulk = await producer.send_many(topic, [(None, value) for value in values])
            await producer.flush()
            assert [(await d).offset for d in single] == list(range(40))
            runs = await bulk.wait()
            assert [run.offset for run in runs] == sorted(run.offset for run in runs)
            assert sum(run.count for run in runs) == 40
            alone = await producer.send(topic, b"x" * 6000)
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                await alone
            after = await producer.send(topic, b"after")
            assert (await after).offset == 80
        records = await read(kafka, topic, 81)
        assert [r.value for r in records] == [*values, *values, b"after"]

    main()


def test_acks_zero_and_one(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("acks")

    @trio_test
    async def main() -> None:
        await create(kafka, topic)
        async with open_producer(kafka.bootstrap, {"acks": "1"}) as producer:
            assert (await (await producer.send(topic, b"one"))).offset == 0
        async with open_producer(kafka.bootstrap, {"acks": "0"}) as producer:
            assert (await (await producer.send(topic, b"zero"))).offset == -1
        await ends_at(kafka, topic, 2)
        assert [r.value for r in await read(kafka, topic, 2)] == [b"one", b"zero"]

    main()


def test_a_missing_topic_and_what_is_not_taken(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("limits")

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 2)
        config = {"max.block.ms": 60_000, "max.request.size": 10_000}
        async with open_producer(kafka.bootstrap, config) as producer:
            with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
                await producer.send("not/allowed", b"")
            with pytest.raises(KafkaError, match="max.request.size is 10000"):
                await producer.send(topic, b"x" * 10_001)
            with pytest.raises(
                KafkaError, match="has no partition 2; it has 2, from 0 to 1"
            ) as caught:
                await producer.send(topic, b"", partition=2)
            assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await producer.partitions(topic) == 2

    main()


def test_full_memory_holds_the_sender_back(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("memory")

    @trio_test
    async def main() -> None:
        await create(kafka, topic)
        config = {"buffer.memory": 40_000, "linger.ms": 60_000, "delivery.timeout.ms": 120_000}
        async with open_producer(kafka.bootstrap, config) as producer:
            for _ in range(400):
                await producer.send(topic, b"x" * 1000)
            assert producer._accumulator.used_bytes <= 40_000
        assert len(await read(kafka, topic, 400)) == 400

    main()


def test_a_loop_of_sends_can_be_cancelled_and_lets_other_tasks_run(
    kafka: Kafka, fresh: Fresh
) -> None:
    topic = fresh("loop")

    @trio_test
    async def main() -> None:
        await create(kafka, topic)
        async with open_producer(kafka.bootstrap) as producer:
            await (await producer.send(topic, b"first"))
            with trio.CancelScope() as scope:
                scope.cancel()
                await producer.send(topic, b"not sent")
            assert scope.cancelled_caught
            sent = 0
            async with trio.open_nursery() as nursery:

                async def stop() -> None:
                    nursery.cancel_scope.cancel()

                nursery.start_soon(stop)
                while True:
                    await producer.send(topic, b"x")
                    sent += 1
            assert sent <= 200  # it may run once more in the round that cancels it
        assert len(await read(kafka, topic, 1 + sent)) == 1 + sent

    main()


def test_memory_that_stays_full_is_an_error(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("full")

    @trio_test
    async def main() -> None:
        await create(kafka, topic)
        with pytest.raises(BufferExhausted, match="buffer.memory"):
            async with open_producer(kafka.bootstrap, {"buffer.memory": 4000}) as producer:
                await producer.send(
                    topic, b"first"
                )  # the broker, and its topic, must be found first
                await producer.flush()
                producer.config = replace(producer.config, max_block_ms=100)
                for broker in producer._sender._brokers.values():
                    broker.in_flight = 1000  # nothing more is sent
                for _ in range(5):
                    await producer.send(topic, b"x" * 1000)

    main()


def test_what_was_not_sent_when_the_block_fails_is_dropped(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("dropped")

    @trio_test
    async def main() -> None:
        await create(kafka, topic)
        kept: list[tuple[Producer, Delivery]] = []
        with pytest.raises(KeyError):
            async with open_producer(kafka.bootstrap, {"linger.ms": 10_000}) as producer:
                kept.append((producer, await producer.send(topic, b"never")))
                raise KeyError
        producer, delivery = kept[0]
        with pytest.raises(Closed):
            await delivery
        with pytest.raises(Closed):
            producer.send_nowait(topic, b"late")

    main()


def test_linger_gathers_and_flush_does_not_wait_for_it(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("linger")

    @trio_test
    async def main() -> None:
        await create(kafka, topic)
        reported: list[BatchDelivered] = []
        config = {"linger.ms": 60_000, "delivery.timeout.ms": 120_000}
        async with open_producer(kafka.bootstrap, config, on_delivery=reported.append) as producer:
            with trio.fail_after(60):
                await producer.send(topic, b"0")
                for number in range(1, 50):
                    producer.send_nowait(topic, b"%d" % number)
                await producer.flush()
        assert [batch.count for batch in reported] == [50]

    main()


def test_a_partitioner_of_ones_own(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("own")

    def by_length(topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int:
        return len(value or b"") % partitions

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 3)
        async with open_producer(kafka.bootstrap, partitioner=by_length) as producer:
            assert (await (await producer.send(topic, b"xx", key=b"k"))).partition == 2
            runs = await (
                await producer.send_many(topic, [(None, b"x" * n) for n in range(9)])
            ).wait()
            assert {run.partition.partition: run.count for run in runs} == {0: 3, 1: 3, 2: 3}

    main()
