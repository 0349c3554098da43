"""Sends the batches of the accumulator to the brokers: one task per broker, with several requests
in flight to each.

Idempotence (KIP-98, KIP-360) keeps records in order and prevents duplicates. A batch gets the
sequence of its first record when it is first sent, and batches are sent in that order; a broker
refuses a gap (OUT_OF_ORDER) and recognizes duplicates. So a batch that is retried is queued before
its successors, which were refused because of the gap and return to the queue too. If the broker's
state really differs from the producer's (the broker lost it, or a batch was refused or given up for
good), the partition continues with a higher epoch and sequences from 0 once it has nothing in
flight: OUT_OF_ORDER means that the batch was not appended, so sending it again cannot duplicate it.
If a batch that was given up may be in the log, its successors may be too: they keep their sequences
until the broker has answered, since with new sequences it would append them again.

A transaction does not continue after a gap: once a batch is given up, the transaction can only be
aborted (`pk.net.client.transaction`), and the next one begins with a new epoch.

Without idempotence, batches may overtake each other on a retry unless
max.in.flight.requests.per.connection is 1, as in the Java client.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import trio

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.record.batch import SEQUENCES
from pk.core.record.compress import Codec
from pk.core.values import ZERO_UUID, TopicPartition
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from pk.net.client.accumulator import Accumulator, Batch, PartitionQueue
from pk.net.client.cluster import Backoff, Cluster
from pk.net.client.config import ProducerConfig
from pk.net.client.connection import Connection, Pending
from pk.net.client.errors import ClientError, RequestTimedOut
from pk.net.client.transaction import Aborted, Transactions

PRODUCE: Final = 0
PURPOSE: Final = "produce"
"""The purpose of connections for Produce requests."""

_EPOCH_MAX: Final = 32_767
_FOREVER: Final = float("inf")

_LOST_SEQUENCE: Final = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)
_STALE_METADATA: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
)


class Sender:
    """The sending side of a producer. It assigns every queue to the sender of its leader, and keeps
    the leaders known."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        accumulator: Accumulator,
        nursery: trio.Nursery,
        *,
        idempotent: bool,
    ) -> None:
        self.cluster = cluster
        self.config = config
        self.accumulator = accumulator
        self.idempotent = idempotent
        self.acks = config.required_acks
        self.codec = accumulator.codec
        self.transactions: Transactions | None = None
        """The transactions of a producer with a `transactional.id`; else None."""

        self.producer_id = -1
        self.producer_epoch = -1
        self.fatal: Exception | None = None
        """The error for which this producer cannot continue."""

        self.on_batch: Callable[[Batch, bytes], None] | None = None
        """Called with each settled batch and its bytes, which the batch no longer holds."""

        self.on_refusal: Callable[[TopicPartition, KafkaError], None] | None = None
        """Called with the error of each batch that will be retried."""

        self.records_sent = 0
        """The number of records in Produce requests; a retry counts again."""

        self.records_retried = 0
        self.topics_used: dict[str, float] = {}
        """Topic → when a record was last sent to it. The metadata of these topics is kept fresh."""

        self._nursery = nursery
        self._brokers: dict[int, BrokerSender] = {}
        self._leaderless: dict[PartitionQueue, None] = {}
        self._wanted = trio.Event()
        self._producer_id_lock = trio.Lock()
        cluster.on_metadata.append(self.assign_all)

    def assign(self, queue: PartitionQueue) -> None:
        """Assign a queue that has batches to the sender of its leader."""
        leader_id, _ = self.cluster.metadata.leader(queue.partition)
        if leader_id != queue.leader_id:
            before = self._brokers.get(queue.leader_id)
            if before is not None:
                before.queues.pop(queue, None)
            queue.leader_id = leader_id
        if leader_id < 0:
            self._leaderless[queue] = None
            self.want_metadata()
            return
        self._leaderless.pop(queue, None)
        broker = self._brokers.get(leader_id)
        if broker is None:
            broker = self._brokers[leader_id] = BrokerSender(self, leader_id)
            self._nursery.start_soon(broker.run)
        broker.queues[queue] = None
        broker.wake()

    def assign_all(self) -> None:
        """Assign all queues again after the metadata changed."""
        for queue in self.accumulator.queues.values():
            if queue.batches:
                self.assign(queue)

    def wake_all(self) -> None:
        """Wake every sender."""
        for broker in self._brokers.values():
            broker.wake()

    @property
    def requests_in_flight(self) -> int:
        """The number of Produce requests without a response yet."""
        return sum(broker.in_flight for broker in self._brokers.values())

    def want_metadata(self) -> None:
        """Request the metadata of the topics in use."""
        self._wanted.set()

    async def keep_metadata(self) -> None:
        """Refresh the metadata when it is requested or old. Give up batches that find no leader in
        time."""
        backoff = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
        while True:
            with trio.move_on_after(self.config.metadata_max_age_ms / 1000):
                await self._wanted.wait()
            self._wanted = trio.Event()
            idle = trio.current_time() - self.config.metadata_max_idle_ms / 1000
            waiting = {queue.partition.topic for queue in self._leaderless}
            for topic in [t for t, used in self.topics_used.items() if used < idle]:
                if topic not in waiting:
                    del self.topics_used[topic]
            try:
                if self.topics_used or waiting:
                    await self.cluster.refresh({*self.topics_used, *waiting})
            except (KafkaError, ClientError, ProtocolError):
                self._wanted.set()
            self._settle_leaderless()
            if self._leaderless:
                self._wanted.set()
            if self._wanted.is_set():
                await trio.sleep(backoff.next_ms() / 1000)
            else:
                backoff.reset()
                await trio.sleep(self.config.retry_backoff_ms / 1000)

    def _settle_leaderless(self) -> None:
        now = trio.current_time()
        for queue in list(self._leaderless):
            topic = self.cluster.metadata.topics.get(queue.partition.topic)
            code = topic.error_code if topic is not None else 0
            final = code in (
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                ErrorCode.INVALID_TOPIC_EXCEPTION,
            )
            while queue.batches and (final or self.expired(queue.batches[0], now)):
                batch = queue.batches.popleft()
                error = KafkaError(code, str(queue.partition)) if code else self.timed_out(batch)
                self.give_up(queue, batch, error)
            if not queue.batches:
                self._leaderless.pop(queue, None)

    def expired(self, batch: Batch, now: float) -> bool:
        """Return whether `delivery.timeout.ms` has passed for a batch."""
        return now - batch.created >= self.config.delivery_timeout_ms / 1000

    def timed_out(self, batch: Batch) -> Exception:
        """Return the error of a batch that ran out of time: the broker's last refusal if there was
        one, since it shows the problem."""
        late = (
            f"{batch.count} records for {batch.partition} were not acknowledged within"
            f" delivery.timeout.ms ({self.config.delivery_timeout_ms} ms)"
        )
        if batch.refusal is None:
            return RequestTimedOut(late)
        return KafkaError(batch.refusal.code, f"{batch.refusal.message}; {late}")

    def settle(self, batch: Batch, **outcome: Any) -> None:
        """Settle a batch with its outcome, unless it is settled already, as by `close`."""
        if batch not in self.accumulator.unsettled:
            return
        outcome.setdefault("error", None)
        if self.on_batch is None:
            self.accumulator.settle(batch, **outcome)
            return
        if batch.built is None:
            before = batch.size_bytes
            with suppress(KafkaError):
                batch.seal()
                self.accumulator.sealed(before, batch)
        data = bytes(batch.built or b"")
        self.accumulator.settle(batch, **outcome)
        self.on_batch(batch, data)

    def give_up(self, queue: PartitionQueue, batch: Batch, error: Exception) -> None:
        """Fail a batch; an idempotent producer may then have a gap in its sequences."""
        if batch not in self.accumulator.unsettled:
            return  # aborted already
        if self.transactions is not None:
            self.transactions.fail(error)
        elif self.idempotent and batch.base_sequence >= 0:
            if batch.in_doubt or queue.has_earlier(batch):
                # The batch, and so its successors, or a batch before it, may be in the log: each
                # batch that has a sequence keeps it.
                queue.unresolved = True
            else:
                queue.needs_epoch = True
        self.settle(batch, error=error)

    async def ensure_producer_id(self) -> None:
        """Get a producer id (InitProducerId) if there is none. A refusal is fatal for the
        producer."""
        from pk.core.wire.messages.init_producer_id import InitProducerIdRequest

        async with self._producer_id_lock:
            if self.producer_id >= 0 or self.fatal is not None:
                return
            backoff = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
            while self.producer_id < 0:
                request = InitProducerIdRequest(
                    transactional_id=None, transaction_timeout_ms=2**31 - 1
                )
                try:
                    response = await self.cluster.request(request, high=5)
                    if response.error_code:
                        raise KafkaError(response.error_code, "InitProducerId")
                except KafkaError as e:
                    if not e.retriable:
                        self.fail(_with_hint(e))
                        return
                except (ClientError, ProtocolError):
                    pass
                else:
                    self.producer_id = response.producer_id
                    self.producer_epoch = response.producer_epoch
                    return
                await trio.sleep(backoff.next_ms() / 1000)
                self.expire_all()

    def expire_all(self) -> None:
        """Fail the batches that have timed out, in all queues."""
        now = trio.current_time()
        for queue in self.accumulator.queues.values():
            while queue.batches and self.expired(queue.batches[0], now):
                batch = queue.batches.popleft()
                self.give_up(queue, batch, self.timed_out(batch))

    def fail(self, error: Exception) -> None:
        """End the producer: fail every batch, and let every later call fail."""
        self.fatal = error
        self.abort(error)

    def set_producer_id(self, producer_id: int, producer_epoch: int) -> None:
        """Use this producer id and epoch from the next batch on."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        for queue in self.accumulator.queues.values():
            queue.reset_sequences()

    def drop_waiting(self, error: Exception) -> None:
        """Fail every batch that is not in flight."""
        for queue in self.accumulator.queues.values():
            while queue.batches:
                batch = queue.batches.popleft()
                if self.transactions is not None and batch.base_sequence >= 0:
                    self.transactions.fail(error)
                self.settle(batch, error=error)

    def abort(self, error: Exception) -> None:
        """Fail every batch."""
        for queue in self.accumulator.queues.values():
            queue.batches.clear()
            for batch in queue.in_flight:
                batch.in_doubt = True
        for batch in list(self.accumulator.unsettled):
            self.settle(batch, error=error)

    def raise_epoch(self, queue: PartitionQueue) -> bool:
        """Move a partition to a new epoch. Returns False if the epochs are exhausted, so that a new
        id is needed."""
        if self.producer_epoch >= _EPOCH_MAX:
            self.producer_id = -1
            for other in self.accumulator.queues.values():
                other.needs_epoch = True
            return False
        self.producer_epoch += 1
        queue.restart_sequences(self.producer_epoch)
        return True


class BrokerSender:
    """Sends the batches of the partitions that one broker leads."""

    def __init__(self, sender: Sender, node_id: int) -> None:
        self.sender = sender
        self.config = sender.config
        self.node_id = node_id
        self.queues: dict[PartitionQueue, None] = {}
        self.in_flight = 0
        self._wake = trio.Event()

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled."""
        sender = self.sender
        async with trio.open_nursery() as nursery:
            while True:
                due = _FOREVER
                if self.queues and self.in_flight < self._in_flight_max:
                    now = trio.current_time()
                    due = self._next_due(now)
                    if due <= now:
                        if sender.idempotent and sender.producer_id < 0:
                            await sender.ensure_producer_id()
                            continue
                        if not await self._admitted():
                            continue
                        connection = await self._connection()
                        if connection is None:
                            continue
                        due = self._send(connection, nursery)
                if due <= trio.current_time():
                    await trio.lowlevel.checkpoint()
                    continue
                with trio.move_on_at(due):
                    await self._wake.wait()
                self._wake = trio.Event()

    @property
    def _in_flight_max(self) -> int:
        return self.config.max_in_flight_requests_per_connection

    async def _admitted(self) -> bool:
        """Return whether the queued batches may be sent: if this producer has transactions, the
        batches must belong to the open one."""
        transactions = self.sender.transactions
        if transactions is None:
            return True
        waiting = [queue.partition for queue in self.queues if queue.batches]
        if all(map(transactions.is_admitted, waiting)) or await transactions.admit(waiting):
            return True
        # The transaction will be aborted, so no more of it is sent.
        self.sender.drop_waiting(transactions.error or Aborted())
        await trio.lowlevel.checkpoint()
        return False

    async def _connection(self) -> Connection | None:
        sender = self.sender
        try:
            return await sender.cluster.connection(self.node_id, PURPOSE)
        except (KafkaError, ClientError, ProtocolError):
            sender.want_metadata()
            self._expire(trio.current_time())
            await trio.sleep(self.config.retry_backoff_ms / 1000)
            return None

    def _expire(self, now: float) -> None:
        sender = self.sender
        for queue in list(self.queues):
            while queue.batches and sender.expired(queue.batches[0], now):
                batch = queue.batches.popleft()
                sender.give_up(queue, batch, sender.timed_out(batch))

    def _next_due(self, now: float) -> float:
        """Return when to send the first batch. Drops empty queues."""
        due = _FOREVER
        for queue in list(self.queues):
            if not queue.batches:
                del self.queues[queue]
            else:
                due = min(due, self._due(queue, now))
                if due <= now:
                    break
        return due

    def _due(self, queue: PartitionQueue, now: float) -> float:
        """Return when to send the first batch of a queue; infinity if a batch in flight must return
        first."""
        batch = queue.batches[0]
        deadline = batch.created + self.config.delivery_timeout_ms / 1000
        if not self._may_send(queue, batch):
            return _FOREVER
        if batch.not_before > now:
            return min(batch.not_before, deadline)
        accumulator = self.sender.accumulator
        ready = (
            batch.force
            or batch.built is not None
            or len(queue.batches) > 1
            or batch.is_full
            or accumulator.waiting > 0
        )
        return now if ready else min(batch.created + self.config.linger_ms / 1000, deadline)

    def _may_send(self, queue: PartitionQueue, batch: Batch) -> bool:
        if not self.sender.idempotent:
            return not (queue.in_flight and self._in_flight_max == 1)
        if queue.needs_epoch:
            return not queue.in_flight
        if queue.in_flight and queue.last_acked_sequence < 0:
            return False
        if batch.base_sequence >= 0:
            return not queue.earlier_in_flight(batch)
        return not (queue.unresolved and queue.in_flight)

    def _send(self, connection: Connection, nursery: trio.Nursery) -> float:
        """Send one request with the batches that are due. Returns when to check again."""
        sender, now = self.sender, trio.current_time()
        taken: list[tuple[PartitionQueue, Batch]] = []
        size = 0
        due = _FOREVER
        self._expire(now)
        for queue in list(self.queues):
            if not queue.batches:
                continue
            when = self._due(queue, now)
            if when > now:
                due = min(due, when)
                continue
            if sender.transactions and not sender.transactions.is_admitted(queue.partition):
                due = now  # the batches arrived while others were admitted
                continue
            if not self._resolve(queue):
                due = now
                break
            batch = queue.batches[0]
            self._seal(batch)
            if taken and size + batch.size_bytes > self.config.max_request_size:
                due = now
                break
            size += batch.size_bytes
            queue.batches.popleft()
            if sender.idempotent and batch.base_sequence < 0:
                self._number(queue, batch)
            taken.append((queue, batch))
            del self.queues[queue]  # a queue that has more goes to the end of the line
            if queue.batches:
                self.queues[queue] = None
                due = min(due, self._due(queue, now)) if self._in_flight_max > 1 else due
        if taken:
            self._submit(connection, taken, nursery)
        if self.in_flight >= self._in_flight_max:
            return _FOREVER
        return due

    def _seal(self, batch: Batch) -> None:
        if batch.built is None:
            before = batch.size_bytes
            batch.seal()
            self.sender.accumulator.sealed(before, batch)

    def _resolve(self, queue: PartitionQueue) -> bool:
        """Give an idempotent partition a new epoch if its sequences require one. Returns False if
        the partition cannot continue yet."""
        sender = self.sender
        if not sender.idempotent:
            return True
        if queue.unresolved and not queue.in_flight and queue.batches[0].base_sequence < 0:
            expected = (queue.last_acked_sequence + 1) % SEQUENCES
            queue.needs_epoch = queue.needs_epoch or expected != queue.next_sequence
            queue.unresolved = False
        if queue.needs_epoch:
            return sender.raise_epoch(queue)
        return True

    def _number(self, queue: PartitionQueue, batch: Batch) -> None:
        sender = self.sender
        if queue.producer_epoch < 0:
            queue.restart_sequences(sender.producer_epoch)
        batch.stamp(
            sender.producer_id,
            queue.producer_epoch,
            queue.next_sequence,
            transactional=sender.transactions is not None,
        )
        queue.next_sequence = (queue.next_sequence + batch.count) % SEQUENCES

    def _submit(
        self,
        connection: Connection,
        taken: list[tuple[PartitionQueue, Batch]],
        nursery: trio.Nursery,
    ) -> None:
        sender = self.sender
        try:
            low, high = self._versions()
            version = connection.version_of(PRODUCE, low=low, high=high)
            request = self._request(taken)
            if version >= 13 and any(t.topic_id == ZERO_UUID for t in request.topic_data):
                version = connection.version_of(PRODUCE, low=low, high=12)
            pending = connection.submit(request, version, answered=sender.acks != 0)
        except KafkaError as e:
            for queue, batch in taken:
                sender.give_up(queue, batch, e)
            return
        except (ClientError, ProtocolError) as e:
            self._retry_all(taken, e)
            return
        for queue, batch in taken:
            batch.attempts += 1
            sender.records_sent += batch.count
            queue.in_flight.append(batch)
        self.in_flight += 1
        nursery.start_soon(self._complete, pending, taken)

    def _versions(self) -> tuple[int, int]:
        """Return the oldest and newest version of Produce for these batches. From version 12 on,
        Produce adds partitions to the transaction by itself (KIP-890)."""
        low = 7 if self.sender.codec == Codec.ZSTD else 3
        transactions = self.sender.transactions
        if transactions is None:
            return low, 32_767
        return (12, 32_767) if transactions.adds_by_itself else (low, 11)

    def _request(self, taken: list[tuple[PartitionQueue, Batch]]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for queue, batch in taken:
            name = queue.partition.topic
            topic = topics.get(name)
            if topic is None:
                topic_id = self.sender.cluster.metadata.topic_id(name)
                topic = topics[name] = TopicProduceData(name=name, topic_id=topic_id)
            data = PartitionProduceData(index=queue.partition.partition, records=batch.built)
            topic.partition_data.append(data)
        return ProduceRequest(
            transactional_id=self.config.transactional_id,
            acks=self.sender.acks,
            timeout_ms=self.config.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    async def _complete(self, pending: Pending, taken: list[tuple[PartitionQueue, Batch]]) -> None:
        sender = self.sender
        try:
            response = await pending.wait()
        except (ClientError, ProtocolError) as e:
            self._release(taken)
            for _, batch in taken:
                batch.in_doubt = True
            sender.want_metadata()
            self._retry_all(taken, e)
            return
        self._release(taken)
        if response is None:
            for _, batch in taken:
                sender.settle(batch)
            return
        answers = _answers(pending.request, response)
        sender.cluster.metadata.note_endpoints(response.node_endpoints)
        for queue, batch in taken:
            answer = answers.get(queue.partition)
            if answer is None:
                error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{queue.partition}: no answer")
                batch.in_doubt = True
                sender.give_up(queue, batch, error)
            elif answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._acknowledged(queue, batch, answer)
            else:
                self._refused(queue, batch, answer)

    def _release(self, taken: Iterable[tuple[PartitionQueue, Batch]]) -> None:
        self.in_flight -= 1
        for queue, batch in taken:
            queue.in_flight.remove(batch)
        self.wake()

    def _acknowledged(
        self, queue: PartitionQueue, batch: Batch, answer: PartitionProduceResponse
    ) -> None:
        if batch.base_sequence >= 0 and batch.producer_epoch == queue.producer_epoch:
            queue.last_acked_sequence = batch.last_sequence
        self.sender.settle(
            batch,
            base_offset=answer.base_offset,
            log_append_time_ms=answer.log_append_time_ms,
        )

    def _refused(
        self, queue: PartitionQueue, batch: Batch, answer: PartitionProduceResponse
    ) -> None:
        sender, code = self.sender, answer.error_code
        error = KafkaError(code, answer.error_message or str(queue.partition))
        if _may_be_appended(error):
            batch.in_doubt = True
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            sender.accumulator.split(queue, batch)
            sender.assign(queue)
            return
        if sender.transactions is not None and code in _LOST_SEQUENCE:
            earlier = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and queue.has_earlier(batch)
            if earlier and sender.transactions.error is None:
                self._retry(queue, batch, error, wait=False)
            else:
                sender.give_up(queue, batch, error)
            return
        if sender.idempotent and code in _LOST_SEQUENCE:
            gap = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and queue.has_earlier(batch)
            if not gap and batch.producer_epoch == queue.producer_epoch:
                queue.needs_epoch = True
            self._retry(queue, batch, error, wait=False)
            return
        if not error.retriable:
            sender.give_up(queue, batch, error)
            return
        moved = False
        if code in _STALE_METADATA:
            leader = answer.current_leader
            moved = sender.cluster.metadata.note_leader(
                queue.partition, leader.leader_id, leader.leader_epoch
            )
            sender.want_metadata()
        self._retry(queue, batch, error, wait=not moved)

    def _retry_all(self, taken: list[tuple[PartitionQueue, Batch]], error: Exception) -> None:
        for queue, batch in reversed(taken):
            self._retry(queue, batch, error, wait=True)

    def _retry(self, queue: PartitionQueue, batch: Batch, error: Exception, *, wait: bool) -> None:
        """Retry a batch later, unless it has no retries or no time left."""
        sender, now = self.sender, trio.current_time()
        if batch not in sender.accumulator.unsettled:
            return  # aborted already
        aborting = sender.transactions is not None and sender.transactions.error is not None
        if aborting or batch.attempts > self.config.retries or sender.expired(batch, now):
            sender.give_up(queue, batch, error)
            return
        batch.refusal = error if isinstance(error, KafkaError) else None
        if batch.refusal is not None and sender.on_refusal is not None:
            sender.on_refusal(batch.partition, batch.refusal)
        if wait:
            backoff = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
            backoff.failures = max(0, batch.attempts - 1)
            batch.not_before = now + backoff.next_ms() / 1000
        batch.force = True
        sender.records_retried += batch.count
        queue.put_back(batch)
        sender.assign(queue)


def _answers(
    request: ProduceRequest, response: Any
) -> dict[TopicPartition, PartitionProduceResponse]:
    """Return the result of each partition by the names in the request: the metadata may have
    changed since, and a response may have only topic ids."""
    names = {topic.topic_id: topic.name for topic in request.topic_data}
    return {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), p.index): p
        for topic in response.responses
        for p in topic.partition_responses
    }


def _may_be_appended(error: KafkaError) -> bool:
    """Return whether a batch refused with this error may be in the log: most transient errors are
    also returned for batches that were appended but not replicated."""
    if error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
        return True
    return error.retriable and error.code != ErrorCode.NOT_ENOUGH_REPLICAS


def _with_hint(error: KafkaError) -> KafkaError:
    if error.code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        return KafkaError(
            error.code, f"{error.message}; enable.idempotence=false needs no producer id"
        )
    return error
