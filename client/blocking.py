"""The client for programs that block: scripts, threads, Django, Flask, Celery.

    with open_producer("localhost:9092") as producer:
        print(producer.send("orders", b"one", key=b"42").result())

The classes have the methods of `pk.client`, without `async` and `await`. The client itself runs in
a trio loop in a thread of its own (portal.py), which all clients of a program share. Methods may be
called from any thread. Ctrl-C interrupts a call that waits.

`send` does not wait for that thread: it queues the record and returns a `Delivery`, and the thread
takes many records at a time. Errors that `send` raises on trio and asyncio are raised by
`Delivery.result`.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from typing import Any, Final, Generic, TypeVar, cast

import trio

from pk.client.blocking_methods import (
    AdminMethods,
    ConsumerMethods,
    ProducerMethods,
    ShareConsumerMethods,
)
from pk.client.portal import Portal, portal
from pk.core.errors import KafkaError, without_frames
from pk.core.record.build import Headers
from pk.core.values import TopicPartition
from pk.net.client import admin, consumer, delivery, producer, share_consumer
from pk.net.client.accumulator import Pair, Row
from pk.net.client.cluster import in_nursery
from pk.net.client.connection import OnRequest
from pk.net.client.delivery import (
    BatchDelivered,
    OnSend,
    OnSettled,
    OutgoingRecord,
    RecordMetadata,
    Run,
    Seen,
)
from pk.net.client.errors import Closed
from pk.net.client.partitioner import Partitioner
from pk.net.client.results import OffsetAndMetadata
from pk.net.client.share_consumer import AcknowledgeType, OnShareRecords, ShareRecord
from pk.net.client.subscription import ConsumerRecord, OnRecords
from pk.net.client.typed import (
    Deserializer,
    NotLoaded,
    RecordDeserializer,
    RecordSerializer,
    SerializedRow,
    Serializer,
    ShareRecordDeserializer,
    TypedRecord,
    TypedShareRecord,
    UndecodableRecord,
    seek_back,
    without_headers,
)

__all__ = [
    "Admin",
    "Consumer",
    "Deliveries",
    "Delivery",
    "Producer",
    "ShareConsumer",
    "TypedConsumer",
    "TypedProducer",
    "TypedShareConsumer",
    "open_admin",
    "open_consumer",
    "open_producer",
    "open_share_consumer",
]

K = TypeVar("K")
V = TypeVar("V")
M = TypeVar("M", bound=Callable[..., Any])

_WAITING_BYTES_MAX: Final = 1 << 20
"""`send` waits while more bytes than this are queued for the client's thread."""

Partitions = tuple[TopicPartition, ...]


class Delivery:
    """A record that was passed to `send`."""

    __slots__ = ("_error", "_on_trio", "_sender", "_settled", "arguments")

    def __init__(
        self, sender: Sender, arguments: tuple[Any, ...], settled: OnSettled | None = None
    ) -> None:
        self._sender = sender
        self._settled = settled
        self.arguments: tuple[Any, ...] | None = arguments
        """The arguments of `send`; None once the client's thread has taken the record."""
        self._on_trio: delivery.Delivery | None = None
        self._error: Exception | None = None

    @property
    def done(self) -> bool:
        """Whether `result` would return or raise at once."""
        return self._error is not None or (self._on_trio is not None and self._on_trio.done)

    def result(self, timeout_ms: float | None = None) -> RecordMetadata:
        """Wait until the record is acknowledged. Raises KafkaError or ClientError if the record
        failed, and trio.TooSlowError after `timeout_ms` milliseconds (None: wait forever); the
        record may still be acknowledged then."""
        return self._sender.portal.run(self._result, timeout_ms)

    async def _result(self, timeout_ms: float | None) -> RecordMetadata:
        with trio.fail_after(float("inf") if timeout_ms is None else timeout_ms / 1000):
            await self._sender.taken(self)
            if self._on_trio is None:
                assert self._error is not None
                raise without_frames(self._error)
            return await self._on_trio.wait()

    def accepted(self, on_trio: delivery.Delivery) -> None:
        """Record that the producer has accepted the record."""
        self._on_trio, self.arguments = on_trio, None
        if self._settled is not None:
            on_trio.watch(self._settled)

    def refused(self, error: Exception) -> None:
        """Record the error for which the producer did not accept the record."""
        self._error, self.arguments = error, None
        settled, self._settled = self._settled, None
        if settled is not None:
            settled(error)


class Deliveries:
    """The records of one `send_many`."""

    __slots__ = ("_on_trio", "_portal")

    def __init__(self, on_trio: delivery.Deliveries, through: Portal) -> None:
        self._on_trio = on_trio
        self._portal = through

    def result(self) -> list[Run]:
        """Wait until all records are settled, and return their positions. Then raises the first
        error if any record failed."""
        return self._portal.run(self._on_trio.wait)


class Sender:
    """Passes records from any thread to the producer, in the order of the calls to `send`."""

    def __init__(self, client: producer.Producer, through: Portal) -> None:
        self.portal = through
        self._client = client
        self._waiting: deque[Delivery] = deque()
        self._waiting_bytes = 0
        self._room = threading.Condition()
        self._news = trio.Event()
        self._progress = trio.Event()
        self._closed = False
        self.refusal: Exception | None = None
        """The error of the first record since the transaction began that the producer did not
        accept; the transaction must then not commit."""

    def put(
        self, arguments: tuple[Any, ...], size_bytes: int, settled: OnSettled | None = None
    ) -> Delivery:
        """Queue a record for the client's thread. Waits while too many bytes are queued. Raises
        Closed."""
        record = Delivery(self, arguments, settled)
        with self._room:
            while self._waiting_bytes >= _WAITING_BYTES_MAX and not self._closed:
                self._room.wait()
            if self._closed:
                raise Closed("this producer is closed")
            first = not self._waiting
            self._waiting.append(record)
            self._waiting_bytes += size_bytes
        if first:
            self.portal.call_soon(self._wake)
        return record

    def _wake(self) -> None:
        self._news.set()

    async def run(self) -> None:
        """Pass queued records to the producer, in a trio task, until cancelled."""
        try:
            while True:
                await self._news.wait()
                self._news = trio.Event()
                while self._waiting:
                    with self._room:
                        records = list(self._waiting)
                    await self._take(records)
        finally:
            self._refuse_rest()

    def _refuse_rest(self) -> None:
        for record in self._waiting:
            if record.arguments is not None:
                record.refused(_not_accepted())

    async def _take(self, records: list[Delivery]) -> None:
        send_nowait = self._client.send_nowait
        for record in records:
            assert record.arguments is not None
            topic, value, key, headers, partition, timestamp_ms = record.arguments
            try:
                try:
                    accepted = send_nowait(
                        topic,
                        value,
                        key=key,
                        headers=headers,
                        partition=partition,
                        timestamp_ms=timestamp_ms,
                    )
                except trio.WouldBlock:
                    accepted = await self._client.send(
                        topic,
                        value,
                        key=key,
                        headers=headers,
                        partition=partition,
                        timestamp_ms=timestamp_ms,
                    )
                record.accepted(accepted)
            except Exception as e:  # noqa: BLE001 - raised by `Delivery.result`
                self.refusal = self.refusal or e
                record.refused(without_frames(e))
        with self._room:
            for _ in records:
                self._waiting.popleft()
            self._waiting_bytes = sum(map(_size, self._waiting)) if self._waiting else 0
            self._room.notify_all()
        self._progress.set()
        self._progress = trio.Event()
        await trio.lowlevel.checkpoint()

    async def taken(self, record: Delivery) -> None:
        """Wait until the producer has accepted or refused `record`."""
        while record.arguments is not None:
            if self._closed:
                record.refused(_not_accepted())
                return
            await self._progress.wait()

    async def all_taken(self) -> None:
        """Wait until the queue is empty."""
        while self._waiting and not self._closed:
            await self._progress.wait()

    async def before_commit(self) -> None:
        """Wait until the queue is empty. Raises the first error of a record since the transaction
        began that the producer did not accept."""
        await self.all_taken()
        if self.refusal is not None:
            raise without_frames(self.refusal)

    def close(self) -> None:
        """Take no more records."""
        with self._room:
            self._closed = True
            self._room.notify_all()
        self._progress.set()


def _not_accepted() -> Closed:
    return Closed("the producer was closed before it took this record")


def _size(record: Delivery) -> int:
    assert record.arguments is not None
    _, value, key, headers, _, _ = record.arguments
    return producer.record_size(key, value, headers)


class Producer(ProducerMethods):
    """A producer, made by `open_producer`; see `pk.client.Producer`."""

    def __init__(
        self,
        client: producer.Producer,
        through: Portal,
        sender: Sender,
        on_send: OnSend | None,
    ) -> None:
        super().__init__(client, through)
        self._sender = sender
        self._on_send = on_send

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Send a record; see `pk.client.Producer.send` for the arguments. Waits only while the
        client has not taken many earlier records yet. Raises Closed; `Delivery.result` raises all
        other errors."""
        if self._on_send is not None:
            record = OutgoingRecord(topic, value, key, list(headers), partition, timestamp_ms)
            return self._put_seen(record, self._on_send(record))
        size_bytes = producer.record_size(key, value, headers)
        return self._sender.put((topic, value, key, headers, partition, timestamp_ms), size_bytes)

    def _put_seen(self, record: OutgoingRecord, settled: OnSettled | None) -> Delivery:
        key, value, headers = record.key, record.value, record.headers
        arguments = record.topic, value, key, headers, record.partition, record.timestamp_ms
        try:
            return self._sender.put(arguments, producer.record_size(key, value, headers), settled)
        except BaseException as e:
            if settled is not None:
                settled(e)
            raise

    def _send_seen(self, records: Sequence[Seen]) -> Deliveries:
        self._portal.run(self._sender.all_taken)
        on_trio = self._portal.run(self._client.send_seen, records)
        return Deliveries(on_trio, self._portal)

    def send_many(
        self,
        topic: str,
        records: Sequence[Pair],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Deliveries:
        """Send many records, each a (key, value); see `pk.client.Producer.send_many`."""
        if (on_send := self._on_send) is not None:
            outgoing = [
                OutgoingRecord(topic, v, k, [], partition, timestamp_ms) for k, v in records
            ]
            return self._send_seen([(record, on_send(record)) for record in outgoing])

        async def send() -> delivery.Deliveries:
            await self._sender.all_taken()
            return await self._client.send_many(
                topic, records, partition=partition, timestamp_ms=timestamp_ms
            )

        return Deliveries(self._portal.run(send), self._portal)

    def send_rows(self, topic: str, rows: Sequence[Row]) -> Deliveries:
        """Send records with headers, timestamps and partitions of their own; see
        `pk.client.Producer.send_rows`."""
        if (on_send := self._on_send) is not None:
            outgoing = [OutgoingRecord(topic, v, k, list(h), p, ms) for k, v, h, ms, p in rows]
            return self._send_seen([(record, on_send(record)) for record in outgoing])

        async def send() -> delivery.Deliveries:
            await self._sender.all_taken()
            return await self._client.send_rows(topic, rows)

        return Deliveries(self._portal.run(send), self._portal)

    def flush(self) -> None:
        """Send all records added so far, and wait until each is acknowledged or has failed."""

        async def flush() -> None:
            await self._sender.all_taken()
            await self._client.flush()

        self._portal.run(flush)

    def begin_transaction(self) -> None:
        """Begin a transaction without a block; see `pk.client.Producer.begin_transaction`."""
        super().begin_transaction()
        self._sender.refusal = None

    def commit_transaction(self) -> None:
        """Send all records and commit; see `pk.client.Producer.commit_transaction`."""

        async def commit() -> None:
            await self._sender.before_commit()
            await self._client.commit_transaction()

        self._portal.run(commit)

    def abort_transaction(self) -> None:
        """Drop the records that were not sent, and abort; see
        `pk.client.Producer.abort_transaction`."""

        async def abort() -> None:
            await self._sender.all_taken()
            await self._client.abort_transaction()

        self._portal.run(abort)

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Run the block in a transaction (KIP-98). The records that the block sends become visible
        together when it ends, or never if it raises; see `pk.client.Producer.transaction`."""
        with self._portal.opened(self._client.transaction()):
            self._sender.refusal = None
            try:
                yield
            except BaseException:
                self._portal.run(self._sender.all_taken)
                raise
            self._portal.run(self._sender.before_commit)


def _after_put_back(method: M) -> M:
    """Return a method of `Consumer` that calls `put_back` first."""

    @wraps(method)
    def call(self: Consumer, *args: Any, **kwargs: Any) -> Any:
        self.put_back()
        return method(self, *args, **kwargs)

    return cast(M, call)


class Consumer(ConsumerMethods):
    """A consumer, made by `open_consumer`; see `pk.client.Consumer`."""

    def __init__(
        self, client: consumer.Consumer, through: Portal, on_records: OnRecords | None
    ) -> None:
        super().__init__(client, through)
        self._on_records = on_records
        self._unread: deque[ConsumerRecord] = deque()
        """Records of the last poll that the loop has not yielded yet: a call to the other thread
        for each record would cost more than everything else."""

    def put_back(self) -> None:
        """Move the position back to the first record that the loop over the consumer has not
        yielded. Each method that reads or changes a position does this first, and so does the end
        of the block."""
        if self._unread:
            unread = tuple(self._unread)
            self._unread.clear()
            seek_back(self, unread)

    assign = _after_put_back(ConsumerMethods.assign)
    unsubscribe = _after_put_back(ConsumerMethods.unsubscribe)
    seek = _after_put_back(ConsumerMethods.seek)
    seek_to_beginning = _after_put_back(ConsumerMethods.seek_to_beginning)
    seek_to_end = _after_put_back(ConsumerMethods.seek_to_end)
    seek_to_time = _after_put_back(ConsumerMethods.seek_to_time)
    position = _after_put_back(ConsumerMethods.position)
    position_nowait = _after_put_back(ConsumerMethods.position_nowait)
    lag = _after_put_back(ConsumerMethods.lag)
    pause = _after_put_back(ConsumerMethods.pause)
    poll_batches = _after_put_back(ConsumerMethods.poll_batches)

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """See `pk.client.Consumer.consumed_offsets`."""
        offsets = super().consumed_offsets()
        for record in reversed(self._unread):
            partition = TopicPartition(record.topic, record.partition)
            if partition in offsets:
                offsets[partition] = OffsetAndMetadata(record.offset, record.leader_epoch)
        return offsets

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        """See `pk.client.Consumer.commit`."""
        if offsets is None and self._unread:
            offsets = self.consumed_offsets()
        super().commit(offsets)

    def poll(
        self, *, timeout_ms: float | None = None, records_max: int | None = None
    ) -> list[ConsumerRecord]:
        """Return the next records; see `pk.client.Consumer.poll`."""
        self.put_back()
        start_ns = 0 if self._on_records is None else time.time_ns()
        records = super().poll(timeout_ms=timeout_ms, records_max=records_max)
        if self._on_records is not None and records:
            self._on_records(records, start_ns)
        return records

    def poll_by_partition(
        self, *, timeout_ms: float | None = None, records_max: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Like `poll`, but group the records by partition."""
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in self.poll(timeout_ms=timeout_ms, records_max=records_max):
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return found

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_revoked: Callable[[Partitions], None] | None = None,
        on_assigned: Callable[[Partitions], None] | None = None,
        on_lost: Callable[[Partitions], None] | None = None,
    ) -> None:
        """See `pk.client.Consumer.subscribe`. The callbacks run in a thread of their own, while the
        program waits in `poll`. They may call any method of the consumer but `poll`."""
        self._portal.run_sync(
            self._client.subscribe,
            topics,
            pattern=pattern,
            on_revoked=on_revoked and _in_a_thread(on_revoked),
            on_assigned=on_assigned and _in_a_thread(on_assigned),
            on_lost=on_lost and _in_a_thread(on_lost),
        )

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield records forever. Raises what `poll` raises.

        The loop polls `max.poll.records` at a time, but the position is just after the last record
        yielded, so `commit` and the end of the block never commit records that the loop has not
        received. Another loop, or a poll, continues after that record."""
        while True:
            while self._unread:
                yield self._unread.popleft()
            self._unread.extend(self.poll())


class ShareConsumer(ShareConsumerMethods):
    """A share consumer, made by `open_share_consumer`; see `pk.client.ShareConsumer`."""

    def __init__(
        self,
        client: share_consumer.ShareConsumer,
        through: Portal,
        on_records: OnShareRecords | None,
    ) -> None:
        super().__init__(client, through)
        self._on_records = on_records
        self._unread: deque[ShareRecord] = deque()

    def put_back(self, records: Sequence[ShareRecord] = ()) -> None:
        """See `pk.client.ShareConsumer.put_back`. Without `records`, take back those that the loop
        over the consumer has not yielded, as polls, commits and the end of the block do first."""
        unread = (*records, *self._unread)
        self._unread.clear()
        if unread:
            super().put_back(unread)

    def commit(self) -> share_consumer.Outcomes:
        """See `pk.client.ShareConsumer.commit`."""
        self.put_back()
        return super().commit()

    def poll(
        self, *, timeout_ms: float | None = None, records_max: int | None = None
    ) -> list[ShareRecord]:
        """Return the next records; see `pk.client.ShareConsumer.poll`."""
        self.put_back()
        start_ns = 0 if self._on_records is None else time.time_ns()
        records = super().poll(timeout_ms=timeout_ms, records_max=records_max)
        if self._on_records is not None and records:
            self._on_records(records, start_ns)
        return records

    def __iter__(self) -> Iterator[ShareRecord]:
        """Yield records forever. The loop polls `max.poll.records` at a time; each poll settles the
        records of the previous poll that the loop has yielded."""
        while True:
            while self._unread:
                yield self._unread.popleft()
            self._unread.extend(self.poll())


class TypedProducer(Generic[K, V]):
    """Sends keys and values of a program's own types with `producer`, and has all other methods of
    that producer; see `pk.client.TypedProducer`."""

    def __init__(self, producer: Producer, *, key: Serializer[K], value: Serializer[V]) -> None:
        """Initialize the producer. `key` and `value` are functions that return bytes, or a
        `SchemaSerializer`."""
        self.producer = producer
        self._serializer = RecordSerializer(key, value)

    def send(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Serialize and send a record; see `pk.client.TypedProducer.send`. Raises the errors of the
        serializers, and Closed; `Delivery.result` raises all other errors."""
        while True:
            try:
                sent = self._serializer.serialize(topic, key, value, headers)
                break
            except NotLoaded as e:
                needed = e
            needed.load()
        return self.producer.send(
            topic,
            sent[1],
            key=sent[0],
            headers=sent[2],
            partition=partition,
            timestamp_ms=timestamp_ms,
        )

    def send_many(
        self,
        topic: str,
        records: Sequence[tuple[K | None, V | None]],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Deliveries:
        """Serialize and send many records, each a (key, value); see
        `pk.client.TypedProducer.send_many`."""
        rows: list[SerializedRow] = []
        while (needed := self._serializer.serialize_many(topic, records, rows)) is not None:
            needed.load()
        if (pairs := without_headers(rows)) is not None:
            return self.producer.send_many(
                topic, pairs, partition=partition, timestamp_ms=timestamp_ms
            )
        return self.producer.send_rows(topic, [(*row, timestamp_ms, partition) for row in rows])


class TypedConsumer(Generic[K, V]):
    """Reads keys and values of a program's own types with `consumer`, and has all other methods of
    that consumer; see `pk.client.TypedConsumer`."""

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

    def poll(
        self, *, timeout_ms: float | None = None, records_max: int | None = None
    ) -> list[TypedRecord[K, V]]:
        """Return the next records, deserialized; see `pk.client.TypedConsumer.poll`."""
        end = time.monotonic() + (float("inf") if timeout_ms is None else timeout_ms / 1000)
        while True:
            left_ms = None if timeout_ms is None else max(0.0, (end - time.monotonic()) * 1000)
            records = self.consumer.poll(timeout_ms=left_ms, records_max=records_max)
            found = self._deserialized(records)
            if found or not records or time.monotonic() >= end:
                return found

    def __iter__(self) -> Iterator[TypedRecord[K, V]]:
        """Yield records forever, as the loop over `consumer` does."""
        for record in self.consumer:
            yield from self._deserialized([record])

    def _deserialized(self, records: list[ConsumerRecord]) -> list[TypedRecord[K, V]]:
        left = deque(records)
        found: list[TypedRecord[K, V]] = []
        try:
            while (needed := self._deserializer.take(left, found)) is not None:
                needed.load()
        except Exception:
            seek_back(self.consumer, tuple(left))
            if not found:
                raise
        except BaseException:  # interrupted: the program does not receive them
            seek_back(self.consumer, records)
            raise
        return found


class TypedShareConsumer(Generic[K, V]):
    """Reads keys and values of a program's own types with `consumer`, a share consumer, and has all
    its other methods; see `pk.client.TypedShareConsumer`."""

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

    def poll(
        self, *, timeout_ms: float | None = None, records_max: int | None = None
    ) -> list[TypedShareRecord[K, V]]:
        """Return the next records, deserialized; see `pk.client.TypedShareConsumer.poll`."""
        deserializer = self._deserializer
        end = time.monotonic() + (float("inf") if timeout_ms is None else timeout_ms / 1000)
        while True:
            if deserializer.errors:
                raise deserializer.errors.popleft()
            records = list(deserializer.left)
            if not records:
                left_ms = None if timeout_ms is None else max(0.0, (end - time.monotonic()) * 1000)
                records = self.consumer.poll(timeout_ms=left_ms, records_max=records_max)
                deserializer.left.extend(records)
            found: list[TypedShareRecord[K, V]] = []
            try:
                while (needed := deserializer.take(found)) is not None:
                    needed.load()
            except Exception:
                if not found:
                    raise
            except BaseException:  # interrupted: the program does not receive them
                read = {(record.topic, record.partition, record.offset) for record in found}
                again = [r for r in records if (r.topic, r.partition, r.offset) in read]
                deserializer.left.extendleft(reversed(again))
                raise
            if found or (not deserializer.errors and (not records or time.monotonic() >= end)):
                return found

    def __iter__(self) -> Iterator[TypedShareRecord[K, V]]:
        """Yield records forever, and settle them as the loop over `consumer` does."""
        for record in self.consumer:
            self._deserializer.left.append(record)
            yield from self.poll(timeout_ms=0)

    def acknowledge(
        self,
        record: TypedShareRecord[K, V],
        kind: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """Acknowledge a record that a poll has returned; see
        `pk.client.ShareConsumer.acknowledge`."""
        place = TopicPartition(record.topic, record.partition)
        self.consumer.acknowledge_offset(place, record.offset, kind)


class Admin(AdminMethods):
    """An admin client, made by `open_admin`; see `pk.client.Admin`."""


def _in_a_thread(callback: Callable[[Partitions], None]) -> consumer.Rebalanced:
    async def call(partitions: Partitions) -> None:
        await trio.to_thread.run_sync(callback, partitions)

    return call


@asynccontextmanager
async def _running(sender: Sender) -> AsyncGenerator[None]:
    async with in_nursery() as nursery:
        nursery.start_soon(sender.run)
        yield


@contextmanager
def open_producer(
    bootstrap: str | Sequence[str],
    config: Mapping[str, object] | None = None,
    *,
    partitioner: Partitioner | None = None,
    on_delivery: Callable[[BatchDelivered], None] | None = None,
    on_refusal: Callable[[TopicPartition, KafkaError], None] | None = None,
    on_request: OnRequest | None = None,
    on_send: OnSend | None = None,
) -> Generator[Producer]:
    """See `pk.client.open_producer`. `on_send` runs in the thread that sends, and the other
    callbacks in the client's thread."""
    manager = producer.open_producer(
        bootstrap,
        config,
        partitioner=partitioner,
        on_delivery=on_delivery,
        on_refusal=on_refusal,
        on_request=on_request,
    )
    with portal() as through, through.opened(manager) as client:
        sender = Sender(client, through)
        with through.opened(_running(sender)):
            try:
                yield Producer(client, through, sender, on_send)
                through.run(sender.all_taken)
            finally:
                through.run_sync(sender.close)


@contextmanager
def open_consumer(
    bootstrap: str | Sequence[str],
    config: Mapping[str, object] | None = None,
    *,
    on_request: OnRequest | None = None,
    on_records: OnRecords | None = None,
) -> Generator[Consumer]:
    """See `pk.client.open_consumer`. `on_records` runs in the thread that polls."""
    manager = consumer.open_consumer(bootstrap, config, on_request=on_request)
    with portal() as through, through.opened(manager) as client:
        opened = Consumer(client, through, on_records)
        yield opened
        opened.put_back()


@contextmanager
def open_share_consumer(
    bootstrap: str | Sequence[str],
    config: Mapping[str, object] | None = None,
    *,
    on_request: OnRequest | None = None,
    on_records: OnShareRecords | None = None,
) -> Generator[ShareConsumer]:
    """See `pk.client.open_share_consumer`. `on_records` runs in the thread that polls."""
    manager = share_consumer.open_share_consumer(bootstrap, config, on_request=on_request)
    with portal() as through, through.opened(manager) as client:
        opened = ShareConsumer(client, through, on_records)
        yield opened
        opened.put_back()


@contextmanager
def open_admin(
    bootstrap: str | Sequence[str],
    config: Mapping[str, object] | None = None,
    *,
    on_request: OnRequest | None = None,
) -> Generator[Admin]:
    """See `pk.client.open_admin`."""
    manager = admin.open_admin(bootstrap, config, on_request=on_request)
    with portal() as through, through.opened(manager) as client:
        yield Admin(client, through)
