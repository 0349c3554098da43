"""Records with keys and values of a program's own types, on trio, on asyncio and blocking."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
from clients.fixtures import Kafka

from pk.client import (
    NewTopic,
    TopicPartition,
    TypedConsumer,
    TypedProducer,
    TypedRecord,
    UndecodableRecord,
    aio,
    blocking,
    open_consumer,
    open_producer,
)
from pk.net.client.typed import LoadingDeserializer, NotLoaded, RecordHeaders

Fresh = Callable[[str], str]

EARLIEST = {"auto.offset.reset": "earliest"}


def json_bytes(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.fixture
def topic(kafka: Kafka, fresh: Fresh) -> str:
    """A topic of two partitions."""
    name = fresh("typed")
    with blocking.open_admin(kafka.bootstrap) as admin:
        admin.create_topics([NewTopic(name, 2)]).value(name)
    return name


def send_raw(kafka: Kafka, topic: str, *values: bytes | None) -> None:
    """Values for partition 0."""
    with blocking.open_producer(kafka.bootstrap) as producer:
        producer.send_many(topic, [(None, value) for value in values], partition=0).result()


class Late(LoadingDeserializer[str]):
    """A deserializer whose load the test ends."""

    def __init__(self, load: Callable[[], None]) -> None:
        self._load = load
        self.loaded = False

    def deserialize(self, data: bytes, is_key: bool, headers: RecordHeaders) -> str:
        if not self.loaded:
            raise NotLoaded(self._load)
        return data.decode()


SENT = [("a", {"n": 1}), (None, {"n": 2}), ("c", None)]


def check(found: list[TypedRecord[str, Any]], topic: str) -> None:
    assert [(record.key, record.value) for record in found] == SENT
    assert [record.offset for record in found] == [0, 1, 2]
    assert found[0].headers == (("h", b"1"),)
    assert {(record.topic, record.partition) for record in found} == {(topic, 1)}


def test_on_trio(kafka: Kafka, topic: str) -> None:
    async def main() -> None:
        async with open_producer(kafka.bootstrap) as plain:
            producer = TypedProducer(plain, key=str.encode, value=json_bytes)
            for key, value in SENT:
                await producer.send(topic, value, key=key, headers=[("h", b"1")], partition=1)
        async with open_consumer(kafka.bootstrap, EARLIEST) as plain:
            plain.assign([TopicPartition(topic, 1)])
            consumer = TypedConsumer(plain, key=bytes.decode, value=json.loads)
            found: list[TypedRecord[str, Any]] = []
            while len(found) < 3:
                found += await consumer.poll()
            check(found, topic)
            assert await consumer.poll(timeout_ms=0) == []
            plain.seek_to_beginning()
            found.clear()
            async for record in consumer:
                found.append(record)
                assert await plain.position(TopicPartition(topic, 1)) == record.offset + 1
                if len(found) == 3:
                    break
            check(found, topic)

    trio.run(main)


def test_on_asyncio(kafka: Kafka, topic: str) -> None:
    async def main() -> None:
        async with aio.open_producer(kafka.bootstrap) as plain:
            producer = aio.TypedProducer(plain, key=str.encode, value=json_bytes)
            for key, value in SENT:
                await producer.send(topic, value, key=key, headers=[("h", b"1")], partition=1)
        async with aio.open_consumer(kafka.bootstrap, EARLIEST) as plain:
            plain.assign([TopicPartition(topic, 1)])
            consumer = aio.TypedConsumer(plain, key=bytes.decode, value=json.loads)
            found: list[TypedRecord[str, Any]] = []
            async for record in consumer:
                found.append(record)
                if len(found) == 3:
                    break
            check(found, topic)

    asyncio.run(main())


def test_blocking(kafka: Kafka, topic: str) -> None:
    with blocking.open_producer(kafka.bootstrap) as plain:
        producer = blocking.TypedProducer(plain, key=str.encode, value=json_bytes)
        for key, value in SENT:
            producer.send(topic, value, key=key, headers=[("h", b"1")], partition=1)
        with pytest.raises(TypeError, match="not JSON serializable"):
            producer.send(topic, object())
    with blocking.open_consumer(kafka.bootstrap, EARLIEST) as plain:
        plain.assign([TopicPartition(topic, 1)])
        consumer = blocking.TypedConsumer(plain, key=bytes.decode, value=json.loads)
        found: list[TypedRecord[str, Any]] = []
        for record in consumer:
            found.append(record)
            if len(found) == 3:
                break
        check(found, topic)
        assert consumer.poll(timeout_ms=0) == []


def test_an_undecodable_record_is_named_and_keeps_the_position(kafka: Kafka, topic: str) -> None:
    """The records before it come first; the error comes again until the program seeks."""
    send_raw(kafka, topic, b"1", b"2", b"bad", b"4")
    here = TopicPartition(topic, 0)

    async def main() -> None:
        async with open_consumer(kafka.bootstrap, EARLIEST) as plain:
            plain.assign([here])
            consumer = TypedConsumer(plain, key=bytes, value=json.loads)
            found: list[int | None] = []
            while len(found) < 2:
                found += [record.value for record in await consumer.poll()]
            with pytest.raises(UndecodableRecord):
                await consumer.poll()
            with pytest.raises(UndecodableRecord) as caught:
                await consumer.poll()
            assert await plain.position(here) == 2
            error = caught.value
            assert str(error).startswith(f"the value of the record at offset 2 of {topic}/0 cannot")
            assert (error.record.value, error.part) == (b"bad", "value")
            assert isinstance(error.__cause__, json.JSONDecodeError)
            with pytest.raises(UndecodableRecord):
                async for record in consumer:
                    raise AssertionError(record)
            plain.seek(here, error.record.offset + 1)
            found += [record.value for record in await consumer.poll()]
            assert found == [1, 2, 4]

    trio.run(main)


def test_undecodable_records_are_handed_over(kafka: Kafka, topic: str) -> None:
    send_raw(kafka, topic, b"bad", b"worse", b"3", b"bad", b"5")
    handed: list[UndecodableRecord] = []
    with blocking.open_consumer(kafka.bootstrap, EARLIEST) as plain:
        plain.assign([TopicPartition(topic, 0)])
        consumer = blocking.TypedConsumer(
            plain, key=bytes, value=json.loads, on_undecodable=handed.append
        )
        found: list[int | None] = []
        while len(found) < 2:
            records = consumer.poll(records_max=1)
            assert records, "a poll without a limit of time waits for a record"
            found += [record.value for record in records]
    assert found == [3, 5]
    assert [error.record.offset for error in handed] == [0, 1, 3]


def test_a_load_that_fails_loses_no_record(kafka: Kafka, topic: str) -> None:
    send_raw(kafka, topic, b"a", b"b")

    def fail() -> None:
        raise OSError("no answer")

    late = Late(fail)
    with blocking.open_consumer(kafka.bootstrap, EARLIEST) as plain:
        plain.assign([TopicPartition(topic, 0)])
        consumer = blocking.TypedConsumer(plain, key=bytes, value=late)
        for _ in range(2):
            with pytest.raises(OSError, match="no answer"):
                consumer.poll()
        late.loaded = True
        found: list[str | None] = []
        while len(found) < 2:
            found += [record.value for record in consumer.poll()]
    assert found == ["a", "b"]


def _holding() -> tuple[Callable[[], None], threading.Event, threading.Event]:
    """A load that reports its beginning and waits for its release."""
    begun, release = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        release.wait()

    return hold, begun, release


def test_a_poll_cancelled_while_it_loads_loses_no_record_on_trio(kafka: Kafka, topic: str) -> None:
    send_raw(kafka, topic, b"a", b"b")
    hold, begun, release = _holding()
    late = Late(hold)

    async def main() -> None:
        async with open_consumer(kafka.bootstrap, EARLIEST) as plain:
            plain.assign([TopicPartition(topic, 0)])
            consumer = TypedConsumer(plain, key=bytes, value=late)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(consumer.poll)
                await trio.to_thread.run_sync(begun.wait)
                nursery.cancel_scope.cancel()
            release.set()
            assert await plain.position(TopicPartition(topic, 0)) == 0
            late.loaded = True
            found: list[str | None] = []
            while len(found) < 2:
                found += [record.value for record in await consumer.poll()]
            assert found == ["a", "b"]

    try:
        trio.run(main)
    finally:
        release.set()


def test_a_poll_cancelled_while_it_loads_loses_no_record_on_asyncio(
    kafka: Kafka, topic: str
) -> None:
    send_raw(kafka, topic, b"a", b"b")
    hold, begun, release = _holding()
    late = Late(hold)

    async def main() -> None:
        async with aio.open_consumer(kafka.bootstrap, EARLIEST) as plain:
            plain.assign([TopicPartition(topic, 0)])
            consumer = aio.TypedConsumer(plain, key=bytes, value=late)
            poll = asyncio.create_task(consumer.poll())
            await asyncio.to_thread(begun.wait)
            poll.cancel()
            with suppress(asyncio.CancelledError):
                await poll
            assert poll.cancelled()
            release.set()
            assert await plain.position(TopicPartition(topic, 0)) == 0
            late.loaded = True
            found: list[str | None] = []
            while len(found) < 2:
                found += [record.value for record in await consumer.poll()]
            assert found == ["a", "b"]

    try:
        asyncio.run(main())
    finally:
        release.set()
