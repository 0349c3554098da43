"""Records with keys and values of a program's own types, on top of the clients, which use bytes.

    orders = TypedProducer(producer, key=str.encode, value=json_bytes)
    await orders.send("orders", {"price": 3}, key="42")

A serializer is a function that returns bytes, a deserializer is a function that takes them. A
serializer that uses a schema registry must load the schema before the first value. It then raises
NotLoaded, and the function that loads the schema runs in a thread, so the client's event loop never
waits for it. None is not serialized: the record has no key, or is a tombstone.
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
"""A record's key, value and headers."""


class NotLoaded(Exception):
    """Raised by a serializer or deserializer that must load something first. `load` does that, and
    blocks until it is done."""

    def __init__(self, load: Callable[[], None]) -> None:
        super().__init__("not loaded")
        self.load = load


class LoadingSerializer(ABC, Generic[T]):
    """A serializer that depends on the topic, may add a header, and may need to load something
    first."""

    @abstractmethod
    def serialize(
        self, topic: str, is_key: bool, value: T
    ) -> tuple[bytes, tuple[str, bytes] | None]:
        """Return the bytes, and the header to add. Raises NotLoaded."""


class LoadingDeserializer(ABC, Generic[T]):
    """A deserializer that reads the headers, and may need to load something first."""

    @abstractmethod
    def deserialize(self, data: bytes, is_key: bool, headers: RecordHeaders) -> T:
        """Return the key or the value. Raises NotLoaded; any other error means that the bytes
        cannot be deserialized."""


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
    """How often the record has been delivered to the group, including this time."""


class UndecodableRecord(ClientError):
    """The key or the value of a record cannot be deserialized. `record` has the bytes, and `part`
    says which of the two failed. The cause is the deserializer's own error."""

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
    """Serializes keys and values, for the producers on trio, on asyncio and in blocking
    programs."""

    def __init__(self, key: Serializer[K], value: Serializer[V]) -> None:
        self._key = key
        self._value = value

    def serialize(
        self, topic: str, key: K | None, value: V | None, headers: Headers
    ) -> tuple[bytes | None, bytes | None, Headers]:
        """Return the key, value and headers to send. Raises NotLoaded, and the errors of the
        serializers."""
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
        """Append records to `rows`, beginning with the first that is missing there. Returns
        NotLoaded if something must be loaded first; None if all records are in `rows`. Raises the
        errors of the serializers."""
        try:
            for key, value in records[len(rows) :]:
                rows.append(self.serialize(topic, key, value, ()))
        except NotLoaded as needed:
            return needed
        return None


def without_headers(rows: Sequence[SerializedRow]) -> list[Pair] | None:
    """Return the (key, value) of each row; None if a row has headers."""
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
    """A consumer on trio, on asyncio or in a blocking program."""

    def seek(self, partition: TopicPartition, offset: int) -> None: ...


class RecordDeserializer(Generic[K, V]):
    """Deserializes keys and values, for the consumers on trio, on asyncio and in blocking
    programs."""

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
        """Move records from `left` to `found`. Returns NotLoaded if something must be loaded first;
        None if all records are moved. Raises UndecodableRecord, whose record is then the first in
        `left`."""
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
    """Make the next poll return these records again, since the program did not receive them."""
    first: dict[TopicPartition, int] = {}
    for record in records:
        first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
    for partition, offset in first.items():
        with suppress(KeyError, Closed):  # no longer assigned
            consumer.seek(partition, offset)


class TypedProducer(Generic[K, V]):
    """Sends keys and values of a program's own types with `producer`, and has all other methods of
    that producer."""

    def __init__(self, producer: Producer, *, key: Serializer[K], value: Serializer[V]) -> None:
        """Initialize the producer. `key` and `value` are functions that return bytes, or a
        `SchemaSerializer`."""
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
        """Serialize a record and put it into a batch; see `Producer.send` for the arguments.

        Waits for the schema registry before the first record of a topic, if a schema is used.
        Raises the errors of the serializers and of `Producer.send`.
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
        """Serialize many records, each a (key, value), and put them into batches; see
        `Producer.send_many`. If a record cannot be serialized, no record is sent. Raises the errors
        of `send`."""
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
    """Reads keys and values of a program's own types with `consumer`, and has all other methods of
    that consumer.

    If a record cannot be deserialized, `poll` returns the records before it, and then raises
    UndecodableRecord. The position stays at that record; call `consumer.seek` to continue after it.
    If `on_undecodable` is given, the consumer passes the error to it instead, and skips the record.
    """

    def __init__(
        self,
        consumer: Consumer,
        *,
        key: Deserializer[K],
        value: Deserializer[V],
        on_undecodable: Callable[[UndecodableRecord], None] | None = None,
    ) -> None:
        """Initialize the consumer. `key` and `value` are functions that take bytes, or a
        `SchemaDeserializer`."""
        self.consumer = consumer
        self._deserializer = RecordDeserializer(key, value, on_undecodable)

    async def poll(
        self, *, timeout_ms: float | None = None, records_max: int | None = None
    ) -> list[TypedRecord[K, V]]:
        """Return the next records, deserialized; see `Consumer.poll` for the arguments.

        Waits for the schema registry before the first record of a schema. Raises UndecodableRecord,
        the registry's error if it does not answer, and the errors of `Consumer.poll`. The next poll
        returns the remaining records.
        """
        end = time.monotonic() + (float("inf") if timeout_ms is None else timeout_ms / 1000)
        while True:
            left_ms = None if timeout_ms is None else max(0.0, (end - time.monotonic()) * 1000)
            records = await self.consumer.poll(timeout_ms=left_ms, records_max=records_max)
            found = await self._deserialized(records)
            if found or not records or time.monotonic() >= end:
                return found

    async def __aiter__(self) -> AsyncIterator[TypedRecord[K, V]]:
        """Yield records forever. Raises what `poll` raises.

        The position is just after the last record yielded, so `commit` and the end of the block
        never commit records that the loop has not received.
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
        except BaseException:  # cancelled: the program does not receive them
            seek_back(self.consumer, records)
            raise
        return found

    async def _load(self, needed: NotLoaded) -> None:
        await trio.to_thread.run_sync(needed.load, abandon_on_cancel=True)


class ShareRecordDeserializer(Generic[K, V]):
    """Deserializes the records of share consumers on trio, on asyncio and in blocking programs."""

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
        """Records that a poll took from the consumer but did not return."""

        self.errors: deque[UndecodableRecord] = deque()
        """The errors that later polls must raise."""

    def take(self, found: list[TypedShareRecord[K, V]]) -> NotLoaded | None:
        """Move records from `left` to `found`. Returns NotLoaded if something must be loaded first;
        None if all records are moved. Acknowledges the records that cannot be deserialized."""
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
    """Reads keys and values of a program's own types with `consumer`, a share consumer, and has all
    its other methods.

    A record whose bytes cannot be deserialized is released, so that it is delivered again, up to
    the group's limit. The poll returns the other records, and the next poll raises
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
        """Initialize the consumer. `key` and `value` are functions that take bytes, or a
        `SchemaDeserializer`."""
        self.consumer = consumer
        self._deserializer = ShareRecordDeserializer(
            key, value, on_undecodable, consumer.acknowledge
        )

    async def poll(
        self, *, timeout_ms: float | None = None, records_max: int | None = None
    ) -> list[TypedShareRecord[K, V]]:
        """Return the next records, deserialized; see `ShareConsumer.poll` for the arguments.

        Raises UndecodableRecord, the registry's error if it does not answer, and the errors of
        `ShareConsumer.poll`. The next poll returns the remaining records.
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
            except BaseException:  # cancelled: the program does not receive them
                read = {(record.topic, record.partition, record.offset) for record in found}
                again = [r for r in records if (r.topic, r.partition, r.offset) in read]
                deserializer.left.extendleft(reversed(again))
                raise
            if found or (not deserializer.errors and (not records or time.monotonic() >= end)):
                return found

    async def __aiter__(self) -> AsyncIterator[TypedShareRecord[K, V]]:
        """Yield records forever, and settle them as the loop over `consumer` does."""
        async for record in self.consumer:
            self._deserializer.left.append(record)
            for found in await self.poll(timeout_ms=0):
                yield found

    def acknowledge(
        self,
        record: TypedShareRecord[K, V],
        kind: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """Acknowledge a record that a poll has returned; see `ShareConsumer.acknowledge`."""
        place = TopicPartition(record.topic, record.partition)
        self.consumer.acknowledge_offset(place, record.offset, kind)

    async def _load(self, needed: NotLoaded) -> None:
        await trio.to_thread.run_sync(needed.load, abandon_on_cancel=True)
