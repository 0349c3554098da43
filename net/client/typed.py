"""Records with keys and values of a program's own types, over the clients, which take bytes.

    orders = TypedProducer(producer, key=str.encode, value=json_bytes)
    await orders.send("orders", {"price": 3}, key="42")

A serializer is a function that returns bytes, a deserializer is a function that takes them. A
serializer that uses a schema registry must send it a request before the first value. It raises
NotLoaded then, and the function that loads the schema runs in a thread, so the client never waits
for it in its loop. None is not serialized: the record has no key, or it is a tombstone.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar, cast

import trio

from pk.core.record.batch import TimestampType
from pk.core.record.build import Headers
from pk.core.values import TopicPartition
from pk.net.client.accumulator import Pair
from pk.net.client.consumer import Consumer
from pk.net.client.delivery import Deliveries, Delivery
from pk.net.client.errors import ClientError, Closed
from pk.net.client.producer import Producer
from pk.net.client.share_consumer import AcknowledgeType, ShareConsumer, ShareRecord
from pk.net.client.subscription import ConsumerRecord

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

RecordHeaders = tuple[tuple[str, bytes | None], ...]

SerializedRow = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers."""


class NotLoaded(Exception):
    """Raised by a serializer or deserializer that needs something first. `load` fetches it,
    and blocks until then."""

    def __init__(self, load: Callable[[], None]) -> None:
        super().__init__("not loaded")
        self.load = load


class LoadingSerializer(ABC, Generic[T]):
    """A serializer that knows the topic, may add a header, and may need to load something first."""

    @abstractmethod
    def serialize(
        self, topic: str, is_key: bool, value: T
    ) -> tuple[bytes, tuple[str, bytes] | None]:
        """The bytes, and the header to add. Raises NotLoaded."""


class LoadingDeserializer(ABC, Generic[T]):
    """A deserializer that sees the headers, and may need to load something first."""

    @abstractmethod
    def deserialize(self, data: bytes, is_key: bool, headers: RecordHeaders) -> T:
        """The key or the value. Raises NotLoaded; any other error means that the bytes cannot be
        read."""


Serializer = Callable[[T], bytes] | LoadingSerializer[T]
Deserializer = Callable[[bytes], T] | LoadingDeserializer[T]


class TypedRecord(NamedTuple, Generic[K, V]):
    """A `ConsumerRecord` with its key and value deserialized."""

    offset: int
    timestamp: int
    key: K | None
    value: V | None
    headers: RecordHeaders
    topic: str
    partition: int
    timestamp_type: TimestampType
    """The clock of `timestamp`: the producer's, or the broker's at the time of the append."""

    leader_epoch: int


class TypedShareRecord(NamedTuple, Generic[K, V]):
    """A `ShareRecord` with its key and value deserialized."""

    offset: int
    timestamp: int
    key: K | None
    value: V | None
    headers: RecordHeaders
    topic: str
    partition: int
    timestamp_type: TimestampType
    """The clock of `timestamp`: the producer's, or the broker's at the time of the append."""

    leader_epoch: int
    delivery_count: int
    """How often it has been delivered to the group, this time included."""


class UndecodableRecord(ClientError):
    """The key or the value of a record that was read cannot be deserialized. `record` has the
    bytes, `part` names the one that failed; the deserializer's own error is the cause."""

    def __init__(
        self, record: ConsumerRecord | ShareRecord, part: Literal["key", "value"], why: str
    ) -> None:
        super().__init__(
            f"the {part} of the record at offset {record.offset} of"
            f" {record.topic}/{record.partition} cannot be deserialized: {why}"
        )
        self.record = record
        self.part = part


class RecordSerializer(Generic[K, V]):
    """Serializes keys and values; used by the producers of all three ways."""

    def __init__(self, key: Serializer[K], value: Serializer[V]) -> None:
        self._key = key
        self._value = value

    def serialize(
        self, topic: str, key: K | None, value: V | None, headers: Headers
    ) -> tuple[bytes | None, bytes | None, Headers]:
        """Key, value and headers to send. Raises NotLoaded, and what the serializers raise."""
        key_data, key_header = _serialized(self._key, topic, True, key)
        value_data, value_header = _serialized(self._value, topic, False, value)
        more = [header for header in (key_header, value_header) if header is not None]
        return key_data, value_data, [*headers, *more] if more else headers

    def serialize_many(
        self,
        topic: str,
        records: Sequence[tuple[K | None, V | None]],
        rows: list[SerializedRow],
    ) -> NotLoaded | None:
        """Append the missing records to `rows`, until something must be loaded, which is returned;
        None if all records are in `rows`. Raises what the serializers raise."""
        try:
            for key, value in records[len(rows) :]:
                rows.append(self.serialize(topic, key, value, ()))
        except NotLoaded as needed:
            return needed
        return None


def without_headers(rows: Sequence[SerializedRow]) -> list[Pair] | None:
    """The (key, value) of each row; None if one has headers."""
    if any(headers for _, _, headers in rows):
        return None
    return [(key, value) for key, value, _ in rows]


def _serialized(
    serializer: Serializer[T], topic: str, is_key: bool, value: T | None
) -> tuple[bytes | None, tuple[str, bytes] | None]:
    if value is None:
        return None, None
    if isinstance(serializer, LoadingSerializer):
        return cast("LoadingSerializer[T]", serializer).serialize(topic, is_key, value)
    return serializer(value), None


class Seekable(Protocol):
    """A consumer, whichever way it runs."""

    def seek(self, partition: TopicPartition, offset: int) -> None: ...


class RecordDeserializer(Generic[K, V]):
    """Deserializes keys and values; used by the consumers of all three ways."""

    def __init__(
        self,
        key: Deserializer[K],
        value: Deserializer[V],
        on_undecodable: Callable[[UndecodableRecord], None] | None,
    ) -> None:
        self._key = key
        self._value = value
        self._on_undecodable = on_undecodable

    def take(self, left: deque[ConsumerRecord], found: list[TypedRecord[K, V]]) -> NotLoaded | None:
        """Move records from `left` to `found` until something must be loaded, which is returned;
        None if all are moved. Raises UndecodableRecord; the record is then the first one left."""
        while left:
            record = left[0]
            try:
                key = _deserialized(self._key, record, "key")
                value = _deserialized(self._value, record, "value")
                found.append(TypedRecord(*record[:2], key, value, *record[4:]))
            except NotLoaded as needed:
                return needed
            except UndecodableRecord as e:
                if self._on_undecodable is None:
                    raise
                self._on_undecodable(e)
            left.popleft()
        return None


def _deserialized(
    deserializer: Deserializer[T],
    record: ConsumerRecord | ShareRecord,
    part: Literal["key", "value"],
) -> T | None:
    data = record.key if part == "key" else record.value
    if data is None:
        return None
    try:
        if isinstance(deserializer, LoadingDeserializer):
            loading = cast("LoadingDeserializer[T]", deserializer)
            return loading.deserialize(data, part == "key", record.headers)
        return deserializer(data)
    except NotLoaded:
        raise
    except Exception as e:
        raise UndecodableRecord(record, part, str(e) or type(e).__name__) from e


def seek_back(consumer: Seekable, records: Sequence[ConsumerRecord]) -> None:
    """Let the next poll return these records again, since the program did not get them."""
    first: dict[TopicPartition, int] = {}
    for record in records:
        first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
    for partition, offset in first.items():
        with suppress(KeyError, Closed):  # no longer assigned
            consumer.seek(partition, offset)


class TypedProducer(Generic[K, V]):
    """Sends keys and values of a program's own types with `producer`, which keeps all its other
    methods."""

    def __init__(self, producer: Producer, *, key: Serializer[K], value: Serializer[V]) -> None:
        """`key` and `value`: a function that returns bytes, or a `SchemaSerializer`."""
        self.producer = producer
        self._serializer = RecordSerializer(key, value)

    async def send(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Serializes a record and puts it into a batch; see `Producer.send` for the arguments.

        Waits for the schema registry before the first record of a topic, if a schema is used.
        Raises what the serializers raise, and what `Producer.send` raises.
        """
        while True:
            try:
                sent = self._serializer.serialize(topic, key, value, headers)
                break
            except NotLoaded as e:
                needed = e
            await self._load(needed)
        return await self.producer.send(
            topic,
            sent[1],
            key=sent[0],
            headers=sent[2],
            partition=partition,
            timestamp_ms=timestamp_ms,
        )

    async def send_many(
        self,
        topic: str,
        records: Sequence[tuple[K | None, V | None]],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Deliveries:
        """Serializes many records, each a (key, value), and puts them into batches; see
        `Producer.send_many`. If a record cannot be serialized, none is sent. Raises what `send`
        raises."""
        rows: list[SerializedRow] = []
        while (needed := self._serializer.serialize_many(topic, records, rows)) is not None:
            await self._load(needed)
        if (pairs := without_headers(rows)) is not None:
            return await self.producer.send_many(
                topic, pairs, partition=partition, timestamp_ms=timestamp_ms
            )
        return await self.producer.send_rows(
            topic, [(*row, timestamp_ms, partition) for row in rows]
        )

    async def _load(self, needed: NotLoaded) -> None:
        await trio.to_thread.run_sync(needed.load, abandon_on_cancel=True)


class TypedConsumer(Generic[K, V]):
    """Reads keys and values of a program's own types with `consumer`, which keeps all its other
    methods.

    A record whose bytes cannot be deserialized makes `poll` raise UndecodableRecord, after the
    records before it were returned. The position stays at that record; call `consumer.seek` to
    continue after it. If `on_undecodable` is given, the consumer passes the error to it instead,
    and skips the record.
    """

    def __init__(
        self,
        consumer: Consumer,
        *,
        key: Deserializer[K],
        value: Deserializer[V],
        on_undecodable: Callable[[UndecodableRecord], None] | None = None,
    ) -> None:
        """`key` and `value`: a function that takes bytes, or a `SchemaDeserializer`."""
        self.consumer = consumer
        self._deserializer = RecordDeserializer(key, value, on_undecodable)

    async def poll(
        self, *, timeout_ms: float | None = None, records_max: int | None = None
    ) -> list[TypedRecord[K, V]]:
        """The next records, deserialized; see `Consumer.poll` for the arguments.

        Waits for the schema registry before the first record of a schema. Raises UndecodableRecord,
        what the registry raises if it does not answer, and what `Consumer.poll` raises; the next
        poll returns the records that this one did not.
        """
        end = time.monotonic() + (float("inf") if timeout_ms is None else timeout_ms / 1000)
        while True:
            left_ms = None if timeout_ms is None else max(0.0, (end - time.monotonic()) * 1000)
            records = await self.consumer.poll(timeout_ms=left_ms, records_max=records_max)
            found = await self._deserialized(records)
            if found or not records or time.monotonic() >= end:
                return found

    async def __aiter__(self) -> AsyncIterator[TypedRecord[K, V]]:
        """Yields each record, without end. Raises what `poll` raises.

        The position is just after the last record yielded, so `commit` and the end of the block
        never commit records that the loop did not get.
        """
        async for record in self.consumer:
            for found in await self._deserialized([record]):
                yield found

    async def _deserialized(self, records: list[ConsumerRecord]) -> list[TypedRecord[K, V]]:
        left = deque(records)
        found: list[TypedRecord[K, V]] = []
        try:
            while (needed := self._deserializer.take(left, found)) is not None:
                await self._load(needed)
        except Exception:
            seek_back(self.consumer, tuple(left))
            if not found:
                raise
        except BaseException:  # cancelled: the program does not get them
            seek_back(self.consumer, records)
            raise
        return found

    async def _load(self, needed: NotLoaded) -> None:
        await trio.to_thread.run_sync(needed.load, abandon_on_cancel=True)


class ShareRecordDeserializer(Generic[K, V]):
    """Deserializes the records of share consumers; used in all three ways."""

    def __init__(
        self,
        key: Deserializer[K],
        value: Deserializer[V],
        on_undecodable: Callable[[UndecodableRecord], AcknowledgeType] | None,
        acknowledge: Callable[[ShareRecord, AcknowledgeType], None],
    ) -> None:
        self._key = key
        self._value = value
        self._on_undecodable = on_undecodable
        self._acknowledge = acknowledge
        self.left: deque[ShareRecord] = deque()
        """Records that a poll took and did not return."""

        self.errors: deque[UndecodableRecord] = deque()
        """Those that a poll has still to raise."""

    def take(self, found: list[TypedShareRecord[K, V]]) -> NotLoaded | None:
        """Move records from `left` to `found` until something must be loaded, which is returned;
        None if all are moved. Acknowledges those that cannot be read."""
        while self.left:
            record = self.left[0]
            try:
                key = _deserialized(self._key, record, "key")
                value = _deserialized(self._value, record, "value")
                found.append(TypedShareRecord(*record[:2], key, value, *record[4:]))
            except NotLoaded as needed:
                return needed
            except UndecodableRecord as e:
                outcome = AcknowledgeType.RELEASE
                if self._on_undecodable is None:
                    self.errors.append(e)
                else:
                    outcome = self._on_undecodable(e)
                self._acknowledge(record, outcome)
            self.left.popleft()
        return None


class TypedShareConsumer(Generic[K, V]):
    """Reads keys and values of a program's own types with `consumer`, a share consumer, which keeps
    all its other methods.

    A record whose bytes cannot be deserialized is released, so that it is delivered again, up to
    the group's limit. The poll returns the records that it could read, and the next one raises
    UndecodableRecord. If `on_undecodable` is given, the consumer passes the error to it instead,
    and acknowledges the record with the outcome that it returns.
    """

    def __init__(
        self,
        consumer: ShareConsumer,
        *,
        key: Deserializer[K],
        value: Deserializer[V],
        on_undecodable: Callable[[UndecodableRecord], AcknowledgeType] | None = None,
    ) -> None:
        """`key` and `value`: a function that takes bytes, or a `SchemaDeserializer`."""
        self.consumer = consumer
        self._deserializer = ShareRecordDeserializer(
            key, value, on_undecodable, consumer.acknowledge
        )

    async def poll(
        self, *, timeout_ms: float | None = None, records_max: int | None = None
    ) -> list[TypedShareRecord[K, V]]:
        """The next records, deserialized; see `ShareConsumer.poll` for the arguments.

        Raises UndecodableRecord, what the registry raises if it does not answer, and what
        `ShareConsumer.poll` raises; the next poll returns the records that this one did not.
        """
        deserializer = self._deserializer
        end = time.monotonic() + (float("inf") if timeout_ms is None else timeout_ms / 1000)
        while True:
            if deserializer.errors:
                raise deserializer.errors.popleft()
            records = list(deserializer.left)
            if not records:
                left_ms = None if timeout_ms is None else max(0.0, (end - time.monotonic()) * 1000)
                records = await self.consumer.poll(timeout_ms=left_ms, records_max=records_max)
                deserializer.left.extend(records)
            found: list[TypedShareRecord[K, V]] = []
            try:
                while (needed := deserializer.take(found)) is not None:
                    await self._load(needed)
            except Exception:
                if not found:
                    raise
            except BaseException:  # cancelled: the program does not get them
                read = {(record.topic, record.partition, record.offset) for record in found}
                again = [r for r in records if (r.topic, r.partition, r.offset) in read]
                deserializer.left.extendleft(reversed(again))
                raise
            if found or (not deserializer.errors and (not records or time.monotonic() >= end)):
                return found

    async def __aiter__(self) -> AsyncIterator[TypedShareRecord[K, V]]:
        """Yields each record, without end, and settles records as the loop over `consumer` does."""
        async for record in self.consumer:
            self._deserializer.left.append(record)
            for found in await self.poll(timeout_ms=0):
                yield found

    def acknowledge(
        self,
        record: TypedShareRecord[K, V],
        kind: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """Acknowledges a record that a poll has returned; see `ShareConsumer.acknowledge`."""
        place = TopicPartition(record.topic, record.partition)
        self.consumer.acknowledge_offset(place, record.offset, kind)

    async def _load(self, needed: NotLoaded) -> None:
        await trio.to_thread.run_sync(needed.load, abandon_on_cancel=True)
