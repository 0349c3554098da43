"""The producer: sends records in batches, each acknowledged or failed.

    async with open_producer("localhost:9092") as producer:
        delivery = await producer.send("orders", b"one", key=b"42")
        metadata = await delivery.wait()

`send` returns as soon as the record is in a batch; `Delivery.wait` returns its result. `send_many`
is the bulk path: it partitions and appends in tight loops without an object per record. The end of
the block flushes all records. If the block raises, unsent records are dropped and their deliveries
fail with `Closed`.
"""

import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from operator import itemgetter
from typing import Final, Self

import trio

from pk.core.errors import KafkaError, ProtocolError, without_frames
from pk.core.record.build import Headers
from pk.core.record.compress import Codec
from pk.core.values import TopicPartition, new_tuple
from pk.net.client.accumulator import (
    RECORD_OVERHEAD,
    Accumulator,
    Batch,
    Pair,
    PartitionQueue,
    Row,
    too_large,
)
from pk.net.client.cluster import Cluster, in_nursery, open_cluster
from pk.net.client.config import ProducerConfig, idempotence, parse
from pk.net.client.connection import OnRequest
from pk.net.client.delivery import (
    BatchDelivered,
    Deliveries,
    Delivery,
    OnSend,
    OnSettled,
    OutgoingRecord,
    Seen,
)
from pk.net.client.errors import (
    BufferExhausted,
    ClientError,
    Closed,
    NoTransaction,
    UnknownPartition,
)
from pk.net.client.metadata import TopicInfo
from pk.net.client.partitioner import KeyCache, Partitioner, Sticky, round_robin
from pk.net.client.results import GroupMetadata, OffsetAndMetadata
from pk.net.client.sender import Sender
from pk.net.client.transaction import Aborted, Transactions

_KEY = itemgetter(0)
_ABORT_S = 5.0
SENDS_MAX: Final = 100
"""The number of records that may be sent without waiting before the producer lets other tasks
run."""


class Producer:
    """A producer, made by `open_producer`. Several tasks may call its methods at once.

    After `close` every method that sends raises Closed. `Delivery.wait` raises the failure of a
    single record.
    """

    _delivery = Delivery
    _deliveries = Deliveries

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        accumulator: Accumulator,
        sender: Sender,
        partitioner: Partitioner | None,
    ) -> None:
        self.cluster = cluster
        """Connections and metadata."""

        self.config = config
        self._accumulator = accumulator
        self._sender = sender
        self._partitioner = partitioner
        self._sticky: dict[str, Sticky] = {}
        self._keys: dict[str, KeyCache] = {}
        self._closed = False
        self._on_send: OnSend | None = None
        self._sent_without_waiting = 0

    # The hooks are single keywords, since a program sets one of them or none.
    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        bootstrap: str | Sequence[str],
        config: Mapping[str, object] | None = None,
        *,
        partitioner: Partitioner | None = None,
        on_delivery: Callable[[BatchDelivered], None] | None = None,
        on_refusal: Callable[[TopicPartition, KafkaError], None] | None = None,
        on_request: OnRequest | None = None,
        on_send: OnSend | None = None,
    ) -> AsyncGenerator[Self]:
        """Open a producer for the cluster that `bootstrap` belongs to. The producer connects on
        first use, and flushes when the block ends.

        `bootstrap`: one address or several, `host:port`. `config`: Kafka's producer keys.
        `partitioner` replaces the default (murmur2 of the key, sticky without one). `on_delivery`
        is called for every batch that was acknowledged or given up, `on_refusal` for every error
        after which a batch is retried, `on_request` for every request. `on_send` is called with
        each record before it is put into a batch, and may change it; the function that it returns
        is called when the record is settled. With it `send_many` and `send_rows` are as slow as
        `send`. Raises ConfigError.
        """
        parsed = parse(ProducerConfig, config)
        idempotent = idempotence(parsed, config)
        if partitioner is None and parsed.partitioner_class:
            partitioner = round_robin()
        accumulator = Accumulator(
            batch_bytes=parsed.batch_size,
            memory_bytes=parsed.buffer_memory,
            codec=Codec.from_name(parsed.compression_type),
            level=parsed.compression_level,
        )
        async with open_cluster(bootstrap, parsed, on_request) as cluster, in_nursery() as nursery:
            sender = Sender(cluster, parsed, accumulator, nursery, idempotent=idempotent)
            sender.on_refusal = on_refusal
            if on_delivery is not None:
                tell = on_delivery
                sender.on_batch = lambda b, data: tell(
                    BatchDelivered(
                        b.partition,
                        b.base_offset,
                        b.count,
                        b.error,
                        b.error is not None and b.in_doubt,
                        data,
                    )
                )
            if parsed.transactional_id is not None:
                sender.transactions = Transactions(cluster, parsed, sender)
            nursery.start_soon(sender.keep_metadata)
            producer = cls(cluster, parsed, accumulator, sender, partitioner)
            producer._on_send = on_send
            try:
                yield producer
                await producer.flush()
            finally:
                producer.close()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Put a record into a batch. Waits while `buffer.memory` is full or the topic is not known
        yet.

        The partitioner chooses `partition` unless it is given; `timestamp_ms` is in epoch
        milliseconds (default: now). Returns the record's delivery, which is settled once the broker
        has answered. Each call is a cancellation point. Of the calls that do not wait, one in 100
        lets other tasks run.

        Raises BufferExhausted after `max.block.ms`, UnknownPartition, KafkaError for a topic that
        does not exist or a record above `max.request.size`, NoTransaction outside a transaction if
        the producer has a `transactional.id`, Closed.
        """
        if self._on_send is not None:
            record = OutgoingRecord(topic, value, key, list(headers), partition, timestamp_ms)
            return await self._send_seen(record, self._on_send(record))
        info = self._topic_now(topic) or await self._topic(topic)
        size = record_size(key, value, headers)
        if not self._accumulator.has_room(size):
            await self._room(size)
        else:
            await self._checkpoint(1)
        return self._append(info, topic, value, key, headers, partition, timestamp_ms, size)

    def send_nowait(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Like `send`, but raise trio.WouldBlock instead of waiting."""
        info = self._topic_now(topic)
        size = record_size(key, value, headers)
        if info is None or not self._accumulator.has_room(size):
            raise trio.WouldBlock
        if self._on_send is None:
            return self._append(info, topic, value, key, headers, partition, timestamp_ms, size)
        record = OutgoingRecord(topic, value, key, list(headers), partition, timestamp_ms)
        return self._append_seen(info, record, self._on_send(record))

    async def send_seen(self, seen: Sequence[Seen]) -> Deliveries:
        """Send records one by one that `on_send` has already been called with. Raises what `send`
        raises."""
        deliveries = self._deliveries()
        left = deque(seen)
        try:
            while left:
                deliveries.add_one(await self._send_seen(*left.popleft()))
        except BaseException as e:
            for _, settled in left:
                if settled is not None:
                    settled(e)
            raise
        return deliveries

    async def _send_seen(self, record: OutgoingRecord, settled: OnSettled | None) -> Delivery:
        try:
            info = self._topic_now(record.topic) or await self._topic(record.topic)
            size = record_size(record.key, record.value, record.headers)
            if self._accumulator.has_room(size):
                await self._checkpoint(1)
            else:
                await self._room(size)
        except BaseException as e:
            if settled is not None:
                settled(e)
            raise
        return self._append_seen(info, record, settled)

    def _append_seen(
        self, info: TopicInfo, record: OutgoingRecord, settled: OnSettled | None
    ) -> Delivery:
        key, value, headers = record.key, record.value, record.headers
        size = record_size(key, value, headers)
        where = record.partition, record.timestamp_ms
        try:
            delivery = self._append(info, record.topic, value, key, headers, *where, size)
        except Exception as e:
            if settled is not None:
                settled(e)
            raise
        if settled is not None:
            delivery.watch(settled)
        return delivery

    async def send_many(
        self,
        topic: str,
        records: Sequence[Pair],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Deliveries:
        """Put many records, each a (key, value), into batches. This is the fast path for hundreds
        of records or more.

        They share one timestamp in epoch milliseconds (default: now) and have no headers. Records
        for the same partition keep their order. Raises what `send` raises; the records before the
        faulty one may already be in batches.
        """
        if (on_send := self._on_send) is not None:
            outgoing = [
                OutgoingRecord(topic, v, k, [], partition, timestamp_ms) for k, v in records
            ]
            return await self.send_seen([(record, on_send(record)) for record in outgoing])
        info = self._topic_now(topic) or await self._topic(topic)
        deliveries = self._deliveries()
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        if partition is not None or self._partitioner is not None:
            groups = self._grouped(info, topic, records, partition)
            unkeyed: Sequence[Pair] = ()
        else:
            groups, unkeyed = self._grouped_by_key(info, topic, records)
        for number, group in groups.items():
            queue = self._queue(topic, number)
            start = 0
            while start < len(group):
                await self._room(self._accumulator.batch_bytes)
                start = self._extend(queue, group, start, timestamp_ms, deliveries)
        start = 0
        while start < len(unkeyed):
            await self._room(self._accumulator.batch_bytes)
            sticky = self._sticky_of(info, topic)
            queue = self._queue(topic, sticky.partition)
            before = self._accumulator.used_bytes
            start = self._extend(queue, unkeyed, start, timestamp_ms, deliveries)
            sticky.add(self._accumulator.used_bytes - before)
        await self._checkpoint(len(records))
        return deliveries

    async def send_rows(self, topic: str, rows: Sequence[Row]) -> Deliveries:
        """Like `send_many`, for records with headers, timestamps and partitions of their own.
        Raises what `send` raises."""
        if (on_send := self._on_send) is not None:
            outgoing = [OutgoingRecord(topic, v, k, list(h), p, ms) for k, v, h, ms, p in rows]
            return await self.send_seen([(record, on_send(record)) for record in outgoing])
        info = self._topic_now(topic) or await self._topic(topic)
        deliveries = self._deliveries()
        now_ms = time.time_ns() // 1_000_000
        for number, group in self._grouped_rows(info, topic, rows).items():
            queue = self._queue(topic, number)
            start = 0
            while start < len(group):
                await self._room(self._accumulator.batch_bytes)
                start = self._extend_rows(queue, group, start, now_ms, deliveries)
        await self._checkpoint(len(rows))
        return deliveries

    async def flush(self) -> None:
        """Send all records added so far, without lingering, and wait until each is acknowledged or
        has failed.

        Does not raise for failed records: their deliveries do.
        """
        limit = self._accumulator.force_all()
        self._sender.wake_all()
        await trio.lowlevel.checkpoint()
        for batch in list(self._accumulator.unsettled):
            await batch.settled.wait()
        # the halves of a split batch keep its serial
        while early := [b for b in self._accumulator.unsettled if b.serial <= limit]:
            await early[0].settled.wait()

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """Run the block in a transaction (KIP-98). The producer must have a `transactional.id`. The
        records sent in the block, and the offsets that `send_offsets` commits in it, become visible
        together when the block ends, or never if it raises.

        The first transaction fences every earlier producer with the same `transactional.id`. A
        cancelled block aborts if that takes at most five seconds; otherwise the coordinator aborts
        after `transaction.timeout.ms`. If the block is cancelled after the coordinator was asked to
        commit, it does not abort, and the transaction may be committed; the next transaction
        finishes the commit first.

        Raises, after aborting, the error that made the commit impossible; KafkaError with
        PRODUCER_FENCED or INVALID_PRODUCER_EPOCH if another producer has taken over;
        TransactionOutcomeUnknown if the coordinator did not report the outcome of the commit within
        `max.block.ms`; NoTransaction without `transactional.id`.
        """
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException:
            await self._abort_quickly()
            raise
        finally:
            self._transactional_or_closed().leave()

    async def begin_transaction(self) -> None:
        """Begin a transaction without a block. Every path must then end in `commit_transaction` or
        `abort_transaction`. Raises the errors that `transaction` raises at its beginning."""
        await self._transactional().begin()

    async def commit_transaction(self) -> None:
        """Send all records and commit. If this raises, the transaction is still open and must be
        aborted, unless the producer is unusable (see `transaction` for the errors). Raises
        NoTransaction if none is open."""
        transactions = self._transactional()
        if not transactions.open:
            raise NoTransaction("no transaction is open")
        await self.flush()
        if self._sender.fatal is not None:
            raise without_frames(self._sender.fatal)
        if transactions.error is not None:
            raise without_frames(transactions.error)
        await transactions.end(commit=True)

    async def abort_transaction(self) -> None:
        """Drop the records that were not sent, and abort. After a commit that may have taken place,
        do nothing: the next transaction finishes that commit. Raises Closed, NoTransaction."""
        await self._abort(self._transactional())
        self._transactional().leave()

    async def _abort_quickly(self) -> None:
        """Abort after a block has raised, even if the block was cancelled."""
        with trio.move_on_after(_ABORT_S, shield=True):
            await self._abort(self._transactional_or_closed())

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Commit offsets of a group with the open transaction (TxnOffsetCommit), for a
        read-process-write loop.

        `offsets` are the offsets of the next records to read; `group` is the consumer's
        `group_metadata`. The coordinator refuses a member that has since lost its partitions
        (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, KIP-447); the transaction can then only be aborted.
        Raises KafkaError, ClientError, NoTransaction.
        """
        await self._transactional().send_offsets(offsets, group)

    def _transactional(self) -> Transactions:
        if self._closed:
            raise Closed("this producer is closed")
        return self._transactional_or_closed()

    def _transactional_or_closed(self) -> Transactions:
        if self._sender.transactions is None:
            raise NoTransaction("transactions need a transactional.id")
        return self._sender.transactions

    async def _abort(self, transactions: Transactions) -> None:
        """Abort, unless a commit may have taken place, which cannot be undone. Waits for the
        records in flight, so that they cannot become part of the next transaction."""
        fatal = self._sender.fatal is not None
        if not transactions.open or transactions.commit_sent or fatal:
            return
        if transactions.error is None:
            transactions.error = Aborted()
        self._sender.drop_waiting(transactions.error)
        await self.flush()
        if self._sender.fatal is None:
            with suppress(KafkaError, ClientError, ProtocolError):  # the first error is raised
                await transactions.end(commit=False)

    def metrics(self) -> dict[str, float]:
        """Return counters since the producer was opened (`…-total`) and current values, by the
        names of Kafka's producer-metrics. `record-send-total` counts the records in requests, so a
        retry counts again."""
        accumulator, sender = self._accumulator, self._sender
        return {
            "record-send-total": sender.records_sent,
            "record-retry-total": sender.records_retried,
            "record-error-total": accumulator.records_failed,
            "batch-split-total": accumulator.splits,
            "requests-in-flight": sender.requests_in_flight,
            "buffer-total-bytes": accumulator.memory_bytes,
            "buffer-available-bytes": max(0, accumulator.memory_bytes - accumulator.used_bytes),
        }

    async def partitions(self, topic: str) -> int:
        """Return the number of a topic's partitions. Raises KafkaError, and BufferExhausted after
        `max.block.ms`."""
        return len((self._topic_now(topic) or await self._topic(topic)).partitions)

    def close(self) -> None:
        """Drop the records that are not acknowledged yet: their deliveries fail with Closed.
        `open_producer` flushes first, unless its block raised."""
        self._closed = True
        self._sender.abort(Closed("the producer was closed before this record was acknowledged"))

    async def _checkpoint(self, records: int) -> None:
        """Let other tasks run if `records` were sent without waiting. This is a cancellation point
        in any case."""
        self._sent_without_waiting += records
        if self._sent_without_waiting < SENDS_MAX:
            await trio.lowlevel.checkpoint_if_cancelled()
            return
        self._sent_without_waiting = 0
        await trio.lowlevel.checkpoint()

    def _check(self) -> None:
        if self._closed:
            raise Closed("this producer is closed")
        if self._sender.fatal is not None:
            raise without_frames(self._sender.fatal)
        if self._sender.transactions is not None:
            self._sender.transactions.check()

    def _topic_now(self, topic: str) -> TopicInfo | None:
        self._check()
        info = self.cluster.metadata.topics.get(topic)
        if info is None or info.error_code or not info.partitions:
            return None
        return info if topic in self._sender.topics_used else None

    async def _topic(self, topic: str) -> TopicInfo:
        self._check()
        max_block_ms = self.config.max_block_ms
        with trio.move_on_after(max_block_ms / 1000):
            info = await self._patient_topic(topic, max_block_ms)
            self._sender.topics_used[topic] = trio.current_time()
            return info
        raise BufferExhausted(
            f"topic {topic!r} is not known after max.block.ms ({max_block_ms} ms)"
        )

    async def _patient_topic(self, topic: str, max_block_ms: float) -> TopicInfo:
        """Like `Cluster.topic`, but wait for brokers that are not up yet. The broker may create the
        topic."""
        wait = self.config.retry_backoff_ms / 1000
        deadline = trio.current_time() + max_block_ms / 1000
        while True:
            try:
                left_ms = max(0.0, (deadline - trio.current_time()) * 1000)
                return await self.cluster.topic(
                    topic, timeout_ms=left_ms, allow_auto_topic_creation=True
                )
            except ClientError:
                if trio.current_time() + wait >= deadline:
                    raise
            await trio.sleep(wait)

    async def _room(self, size: int) -> None:
        if self._accumulator.has_room(size):
            return
        self._sender.wake_all()
        with trio.move_on_after(self.config.max_block_ms / 1000) as scope:
            await self._accumulator.wait_for_room(size)
        if scope.cancelled_caught:
            raise BufferExhausted(
                f"buffer.memory ({self.config.buffer_memory} bytes) was full for max.block.ms "
                f"({self.config.max_block_ms} ms)"
            )

    def _queue(self, topic: str, partition: int) -> PartitionQueue:
        return self._accumulator.queue(new_tuple(TopicPartition, (topic, partition)))

    def _assign(self, queue: PartitionQueue) -> None:
        """Assign a queue that has something new to a sender. Called once for a batch, not for each
        record."""
        self._sender.topics_used[queue.partition.topic] = trio.current_time()
        self._sender.assign(queue)

    def _append(
        self,
        info: TopicInfo,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        partition: int | None,
        timestamp_ms: int | None,
        size: int,
    ) -> Delivery:
        """Add a record, whose fields are single arguments because a program may send millions."""
        self._check()
        if size > self.config.max_request_size:
            raise too_large(size, self.config.max_request_size, "max.request.size")
        sticky = None
        if partition is not None:
            _check_partition(topic, partition, info)
        elif self._partitioner is not None:
            partition = self._partitioner(topic, key, value, len(info.partitions))
            _check_partition(topic, partition, info)
        elif key is not None and not self.config.partitioner_ignore_keys:
            partition = self._key_cache(topic, info)[key]
        else:
            sticky = self._sticky_of(info, topic)
            partition = sticky.partition
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        queue = self._queue(topic, partition)
        batch, added_bytes, due = self._accumulator.append(queue, timestamp_ms, key, value, headers)
        if due:
            self._assign(queue)
        if sticky is not None:
            sticky.add(added_bytes)
        return self._delivery(batch, batch.count - 1, timestamp_ms)

    def _extend(
        self,
        queue: PartitionQueue,
        records: Sequence[Pair],
        start: int,
        timestamp_ms: int,
        deliveries: Deliveries,
    ) -> int:
        """Append as many records as fit to one batch. Returns the index of the first one that did
        not fit."""
        batch, first = self._batch_for(queue, record_size(*records[start], ()))
        index = self._accumulator.extend(batch, timestamp_ms, records, start)
        self._assign(queue)
        if index > start:
            deliveries.add(batch, first, index - start)
        return index

    def _extend_rows(
        self,
        queue: PartitionQueue,
        rows: Sequence[Row],
        start: int,
        now_ms: int,
        deliveries: Deliveries,
    ) -> int:
        """Like `_extend`, for records with headers and timestamps of their own."""
        key, value, headers, _, _ = rows[start]
        batch, first = self._batch_for(queue, record_size(key, value, headers))
        index = self._accumulator.extend_rows(batch, now_ms, rows, start)
        self._assign(queue)
        if index > start:
            deliveries.add(batch, first, index - start)
        return index

    def _batch_for(self, queue: PartitionQueue, size: int) -> tuple[Batch, int]:
        """Return the batch for a record of `size` bytes, and the number of records in the batch. A
        record that does not fit becomes the first of the next batch, so checking the first record
        of each batch is enough."""
        self._check()
        if size > self.config.max_request_size:
            raise too_large(size, self.config.max_request_size, "max.request.size")
        batch, _ = self._accumulator.open_batch(queue)
        return batch, batch.count

    def _grouped(
        self, info: TopicInfo, topic: str, records: Sequence[Pair], partition: int | None
    ) -> dict[int, Sequence[Pair]]:
        if partition is not None:
            _check_partition(topic, partition, info)
            return {partition: records}
        assert self._partitioner is not None
        groups: dict[int, list[Pair]] = {}
        count = len(info.partitions)
        for record in records:
            number = self._partitioner(topic, record[0], record[1], count)
            _check_partition(topic, number, info)
            groups.setdefault(number, []).append(record)
        return dict(groups)

    def _grouped_by_key(
        self, info: TopicInfo, topic: str, records: Sequence[Pair]
    ) -> tuple[dict[int, Sequence[Pair]], Sequence[Pair]]:
        """Group records by partition, or return all records for any partition if none has a key.
        Records without a key among others are assigned here, so that records of the same partition
        keep their order.
        """
        if self.config.partitioner_ignore_keys:
            return {}, records
        if records and records[0][0] is None and set(map(_KEY, records)) == {None}:
            return {}, records  # the usual case; this check takes a quarter of the time
        partition_of = self._key_cache(topic, info)
        groups: dict[int, list[Pair]] = {}
        keyed = False
        for i, record in enumerate(records):
            key = record[0]
            if key is not None:
                number = partition_of[key]
                if not keyed:
                    keyed = True
                    for other in records[:i]:
                        groups.setdefault(self._sticky_partition(info, topic, other[1]), []).append(
                            other
                        )
            elif keyed:
                number = self._sticky_partition(info, topic, record[1])
            else:
                continue
            group = groups.get(number)
            if group is None:
                groups[number] = [record]
            else:
                group.append(record)
        return (dict(groups), ()) if keyed else ({}, records)

    def _grouped_rows(
        self, info: TopicInfo, topic: str, rows: Sequence[Row]
    ) -> dict[int, list[Row]]:
        """Group records by partition, in order."""
        groups: dict[int, list[Row]] = {}
        partitions = len(info.partitions)
        by_key = not self.config.partitioner_ignore_keys
        partition_of = self._key_cache(topic, info)
        for row in rows:
            key, value, _, _, number = row
            if number is None:
                if self._partitioner is not None:
                    number = self._partitioner(topic, key, value, partitions)
                elif key is not None and by_key:
                    number = partition_of[key]
                else:
                    number = self._sticky_partition(info, topic, value)
            group = groups.get(number)
            if group is None:
                _check_partition(topic, number, info)
                groups[number] = [row]
            else:
                group.append(row)
        return groups

    def _sticky_partition(self, info: TopicInfo, topic: str, value: bytes | None) -> int:
        """Return the current partition for a record without a key."""
        sticky = self._sticky_of(info, topic)
        sticky.add(10 + (len(value) if value else 0))
        return sticky.partition

    def _key_cache(self, topic: str, info: TopicInfo) -> KeyCache:
        cache = self._keys.get(topic)
        if cache is None or cache.partitions != len(info.partitions):
            cache = self._keys[topic] = KeyCache(len(info.partitions))
        return cache

    def _sticky_of(self, info: TopicInfo, topic: str) -> Sticky:
        sticky = self._sticky.get(topic)
        if sticky is None:
            sticky = self._sticky[topic] = Sticky(self.config.batch_size)
        count = len(info.partitions)
        if sticky.due(count):
            available = [i for i, p in enumerate(info.partitions) if p.leader_id >= 0]
            available = available or list(range(count))
            queued = None
            if self.config.partitioner_adaptive_partitioning_enable:
                queues = self._accumulator.queues
                queued = [
                    len(queue.batches) + len(queue.in_flight)
                    if (queue := queues.get(TopicPartition(topic, i))) is not None
                    else 0
                    for i in available
                ]
            sticky.choose(available, queued)
        return sticky


def record_size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the maximum size of a batch with a single record, which `max.request.size` limits."""
    size = RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
    for name, header in headers:
        name_bytes = len(name) if name.isascii() else len(name.encode())
        size += name_bytes + (len(header) if header else 0) + 10
    return size


def _check_partition(topic: str, partition: int, info: TopicInfo) -> None:
    if not 0 <= partition < len(info.partitions):
        raise UnknownPartition(topic, partition, len(info.partitions))


open_producer = Producer.open
