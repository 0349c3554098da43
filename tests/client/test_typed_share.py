"""Share consumers of typed records, and many typed records sent at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
from clients.fixtures import Kafka
from clients.topics import configure_group

from pk.client import (
    AcknowledgeType,
    NewTopic,
    TopicPartition,
    TypedConsumer,
    TypedProducer,
    TypedShareConsumer,
    UndecodableRecord,
    aio,
    blocking,
    open_consumer,
    open_producer,
    open_share_consumer,
)
from pk.net.client.typed import (
    LoadingDeserializer,
    LoadingSerializer,
    NotLoaded,
    RecordHeaders,
)

Fresh = Callable[[str], str]


def json_bytes(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.fixture
def topic(kafka: Kafka, fresh: Fresh) -> str:
    """A topic, and a share group of the same name that begins at its first record."""
    name = fresh("typed-share")
    with blocking.open_admin(kafka.bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1)]).value(name)
    configure_group(kafka, name, {"share.auto.offset.reset": "earliest"})
    return name


def send(kafka: Kafka, topic: str, *values: bytes) -> None:
    with blocking.open_producer(kafka.bootstrap) as producer:
        producer.send_many(topic, [(b"k", value) for value in values]).result()


def test_on_trio_each_record_is_decoded_and_acknowledged(kafka: Kafka, topic: str) -> None:
    send(kafka, topic, b"1", b"2")

    async def main() -> None:
        config = {"group.id": topic, "share.acknowledgement.mode": "explicit"}
        async with open_share_consumer(kafka.bootstrap, config) as plain:
            plain.subscribe([topic])
            consumer = TypedShareConsumer(plain, key=bytes.decode, value=int)
            done: list[int | None] = []
            while len(done) < 2:
                for record in await consumer.poll():
                    assert record.key == "k" and record.topic == topic
                    if record.delivery_count == 1 and record.value == 1:
                        consumer.acknowledge(record, AcknowledgeType.RELEASE)
                        continue
                    consumer.acknowledge(record)
                    done.append(record.value)
            assert sorted(map(str, done)) == ["1", "2"]
            assert set((await plain.commit()).values()) <= {None}

    trio.run(main)


def test_on_asyncio(kafka: Kafka, topic: str) -> None:
    send(kafka, topic, b"1", b"2")

    async def main() -> None:
        async with aio.open_share_consumer(kafka.bootstrap, {"group.id": topic}) as plain:
            plain.subscribe([topic])
            found: list[int | None] = []
            async for record in aio.TypedShareConsumer(plain, key=bytes, value=int):
                found.append(record.value)
                if len(found) == 2:
                    break
            assert found == [1, 2]

    asyncio.run(main())


def test_an_undecodable_record_is_released_and_raised_after_the_others(
    kafka: Kafka, topic: str
) -> None:
    send(kafka, topic, b"1", b"bad", b"3")
    with blocking.open_share_consumer(kafka.bootstrap, {"group.id": topic}) as plain:
        plain.subscribe([topic])
        consumer = blocking.TypedShareConsumer(plain, key=bytes, value=int)
        assert [record.value for record in consumer.poll()] == [1, 3]
        with pytest.raises(UndecodableRecord, match="at offset 1 of"):
            consumer.poll()
        with pytest.raises(UndecodableRecord, match="at offset 1 of"):  # delivered again
            consumer.poll()
        told: list[UndecodableRecord] = []

        def reject(error: UndecodableRecord) -> AcknowledgeType:
            told.append(error)
            return AcknowledgeType.REJECT

        patient = blocking.TypedShareConsumer(plain, key=bytes, value=int, on_undecodable=reject)
        send(kafka, topic, b"4")
        found: list[int | None] = []
        while not told or not found:  # the broker may deliver them one after the other
            found += [record.value for record in patient.poll(timeout_ms=100)]
        assert found == [4] and [error.part for error in told] == ["value"]


class Late(LoadingDeserializer[str]):
    """A deserializer whose load the test ends."""

    def __init__(self, load: Callable[[], None]) -> None:
        self._load = load
        self.loaded = False

    def deserialize(self, data: bytes, is_key: bool, headers: RecordHeaders) -> str:
        if not self.loaded and data == b"late":
            raise NotLoaded(self._load)
        return data.decode()


def test_a_registry_that_does_not_answer_loses_no_record(kafka: Kafka, topic: str) -> None:
    send(kafka, topic, b"early", b"late", b"after")

    def fail() -> None:
        raise OSError("no answer")

    late = Late(fail)
    with blocking.open_share_consumer(kafka.bootstrap, {"group.id": topic}) as plain:
        plain.subscribe([topic])
        consumer = blocking.TypedShareConsumer(plain, key=bytes, value=late)
        assert [record.value for record in consumer.poll()] == ["early"]
        with pytest.raises(OSError, match="no answer"):
            consumer.poll()
        late.loaded = True
        assert [record.value for record in consumer.poll()] == ["late", "after"]


def test_a_poll_that_is_cancelled_returns_its_records_later(kafka: Kafka, topic: str) -> None:
    send(kafka, topic, b"early", b"late")

    async def main() -> None:
        asked = trio.Event()
        token = trio.lowlevel.current_trio_token()
        late = Late(lambda: token.run_sync_soon(asked.set))
        async with open_share_consumer(kafka.bootstrap, {"group.id": topic}) as plain:
            plain.subscribe([topic])
            consumer = TypedShareConsumer(plain, key=bytes, value=late)
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(consumer.poll)
                    await asked.wait()
                    scope.cancel()
            late.loaded = True
            assert [record.value for record in await consumer.poll()] == ["early", "late"]

    trio.run(main)


SENT = [("a", {"n": 1}), (None, {"n": 2}), ("c", None)]


class InHeader(LoadingSerializer[Any]):
    """Adds a header, and loads once."""

    def __init__(self) -> None:
        self.loads = 0

    def serialize(
        self, topic: str, is_key: bool, value: Any
    ) -> tuple[bytes, tuple[str, bytes] | None]:
        if not self.loads:
            raise NotLoaded(self._load)
        return json_bytes(value), ("id", b"7")

    def _load(self) -> None:
        self.loads += 1


def read(kafka: Kafka, topic: str) -> list[tuple[str | None, Any, RecordHeaders]]:
    async def main() -> list[tuple[str | None, Any, RecordHeaders]]:
        async with open_consumer(kafka.bootstrap, {"auto.offset.reset": "earliest"}) as plain:
            plain.assign([TopicPartition(topic, 0)])
            consumer = TypedConsumer(plain, key=bytes.decode, value=json.loads)
            found: list[tuple[str | None, Any, RecordHeaders]] = []
            while len(found) < 3:
                found += [(r.key, r.value, r.headers) for r in await consumer.poll()]
            return found

    return trio.run(main)


def test_many_at_once_on_trio(kafka: Kafka, topic: str) -> None:
    async def main() -> None:
        async with open_producer(kafka.bootstrap) as plain:
            producer = TypedProducer(plain, key=str.encode, value=json_bytes)
            runs = await (await producer.send_many(topic, SENT)).wait()
            assert sum(run.count for run in runs) == 3
            with pytest.raises(TypeError):
                await producer.send_many(topic, [("a", 1), ("b", object())])

    trio.run(main)
    assert read(kafka, topic) == [(key, value, ()) for key, value in SENT]


def test_many_at_once_on_asyncio_with_a_header(kafka: Kafka, topic: str) -> None:
    serializer = InHeader()

    async def main() -> None:
        async with aio.open_producer(kafka.bootstrap) as plain:
            producer = aio.TypedProducer(plain, key=str.encode, value=serializer)
            await (await producer.send_many(topic, SENT)).wait()

    asyncio.run(main())
    assert serializer.loads == 1
    header = (("id", b"7"),)
    wanted = [(key, value, header if value is not None else ()) for key, value in SENT]
    assert read(kafka, topic) == wanted


@pytest.mark.parametrize("in_header", [False, True])
def test_many_at_once_blocking(kafka: Kafka, topic: str, in_header: bool) -> None:
    value = InHeader() if in_header else json_bytes
    with blocking.open_producer(kafka.bootstrap) as plain:
        producer = blocking.TypedProducer(plain, key=str.encode, value=value)
        producer.send_many(topic, SENT, timestamp_ms=5).result()
    assert [found[:2] for found in read(kafka, topic)] == SENT
