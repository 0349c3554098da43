"""Sends sealed batches to the leaders of their partitions, under one producer's identity.

Each partition has one batch in flight, so a batch that is sent again cannot overtake another, and a
broker that already has it recognizes its sequence number (KIP-98). A request contains one batch of
each partition of its leader. Batches that fail with a retriable error or a lost connection are sent
again after a metadata refresh.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import trio

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.record.batch import (
    ATTRIBUTES_AT,
    SEQUENCES,
    TRANSACTIONAL_BIT,
    read_header,
    write_crc,
)
from pk.core.values import ZERO_UUID, TopicPartition
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pk.net.client.cluster import Backoff, Cluster
from pk.net.client.config import ProducerConfig
from pk.net.client.connection import Connection
from pk.net.client.errors import ClientError, is_retriable
from pk.net.client.transaction import Transactions

_PRODUCE: Final = 0
_PURPOSE: Final = "publish"
_REQUEST_BYTES: Final = 8 << 20
_ATTRIBUTES_LOW: Final = ATTRIBUTES_AT + 1


class Identity:
    """A producer id and its epoch, in the form that `Transactions` needs."""

    def __init__(self) -> None:
        self.producer_id = -1
        self.producer_epoch = -1
        self.fatal: Exception | None = None

    def set_producer_id(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id, self.producer_epoch = producer_id, producer_epoch

    def abort(self, error: Exception) -> None:
        """Do nothing: between transactions, no records wait to be sent."""

    def fail(self, error: Exception) -> None:
        if self.fatal is None:
            self.fatal = error


async def new_identity(cluster: Cluster, config: ProducerConfig) -> Identity:
    """Create an idempotent producer without transactions. Raises KafkaError, ClientError."""
    identity = Identity()

    async def ask() -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        response = await cluster.request(request, high=5)
        if response.error_code:
            raise KafkaError(response.error_code, "InitProducerId")
        identity.set_producer_id(response.producer_id, response.producer_epoch)

    await cluster.retry(ask, timeout_ms=config.max_block_ms, what="InitProducerId")
    return identity


@dataclass(slots=True)
class _Queue:
    """The unsent batches of one partition; `head` is the next one, or in flight."""

    partition: TopicPartition
    rest: Iterator[bytearray]
    head: bytearray | None = None
    sequence: int = 0


class Publisher:
    """A publisher of batches, with `transactions` as part of the open transaction. Valid for one
    epoch of the producer."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        identity: Identity,
        transactions: Transactions | None = None,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._identity = identity
        self._transactions = transactions
        self._queues: dict[TopicPartition, _Queue] = {}
        self._moved_at = 0.0
        self._problem: Exception | None = None
        self._fatal: Exception | None = None

    async def publish(self, batches: Mapping[TopicPartition, Iterable[bytearray]]) -> None:
        """Send each partition's batches in order, and return once all are acknowledged.

        Sequence numbers continue those of earlier calls. Raises KafkaError and ClientError after
        `delivery.timeout.ms` without progress, or for an error that is not retriable.
        """
        pending: list[_Queue] = []
        for tp, given in batches.items():
            queue = self._queues.setdefault(tp, _Queue(tp, iter(())))
            queue.rest = iter(given)
            if self._advance(queue):
                pending.append(queue)
        if self._transactions is not None and not await self._transactions.admit(
            queue.partition for queue in pending
        ):
            raise (
                self._transactions.error
                or self._identity.fatal
                or KafkaError(
                    ErrorCode.INVALID_TXN_STATE, "the partitions were not added to the transaction"
                )
            )
        backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        self._moved_at = trio.current_time()
        while pending:
            moved_at = self._moved_at
            for name in {queue.partition.topic for queue in pending}:
                await self._cluster.topic(name, timeout_ms=self._config.max_block_ms)
            await self._send_all(pending)
            if self._fatal is not None:
                raise self._fatal
            pending = [queue for queue in pending if queue.head is not None]
            if not pending:
                return
            silent_s = trio.current_time() - self._moved_at
            if silent_s >= self._config.delivery_timeout_ms / 1000 and self._problem is not None:
                raise self._problem
            if self._moved_at > moved_at:
                backoff.reset()
            await trio.sleep(backoff.next_ms() / 1000)
            await self._refresh({queue.partition.topic for queue in pending})

    async def _refresh(self, topics: set[str]) -> None:
        try:
            await self._cluster.refresh(sorted(topics))
        except (KafkaError, ClientError, ProtocolError) as e:
            self._problem = e

    async def _send_all(self, queues: list[_Queue]) -> None:
        """Send to all leaders at once, until each partition's batches are acknowledged or
        refused."""
        by_leader: dict[int, list[_Queue]] = {}
        for queue in queues:
            node_id, _ = self._cluster.metadata.leader(queue.partition)
            if node_id < 0:
                what = f"{queue.partition} has no leader"
                self._problem = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, what)
            else:
                by_leader.setdefault(node_id, []).append(queue)
        async with trio.open_nursery() as nursery:
            for node_id, led in by_leader.items():
                nursery.start_soon(self._send_to, node_id, led)

    async def _send_to(self, node_id: int, queues: list[_Queue]) -> None:
        try:
            connection = await self._cluster.connection(node_id, _PURPOSE)
            while queues and self._fatal is None:
                taken, size = [queues[0]], len(queues[0].head or b"")
                for queue in queues[1:]:
                    size += len(queue.head or b"")
                    if size > _REQUEST_BYTES:
                        break
                    taken.append(queue)
                went = await self._send(connection, taken)
                # Partitions that were sent go to the end of the list; refused ones wait for new
                # metadata.
                queues = [*queues[len(taken) :], *(q for q in taken if q in went and q.head)]
        except (ClientError, ProtocolError) as e:
            self._problem = e
        except KafkaError as e:
            if is_retriable(e):
                self._problem = e
            else:
                self._fatal = e
        except Exception as e:  # noqa: BLE001 (a batch cannot be read: raised again by publish)
            self._fatal = e

    async def _send(self, connection: Connection, queues: list[_Queue]) -> list[_Queue]:
        """Send one request. Returns the queues whose batch is now in the log, each advanced to its
        next batch."""
        topics: dict[str, TopicProduceData] = {}
        metadata = self._cluster.metadata
        for queue in queues:
            name, index = queue.partition
            data = PartitionProduceData(index=index, records=queue.head)
            topic = topics.setdefault(
                name, TopicProduceData(name=name, topic_id=metadata.topic_id(name))
            )
            topic.partition_data.append(data)
        transactions = self._transactions
        request = ProduceRequest(
            transactional_id=transactions.transactional_id if transactions is not None else None,
            acks=-1,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        low, high = 7, 32_767
        if transactions is not None:
            # A Produce request of version 12 or later adds its partitions to the transaction
            # (KIP-890).
            low, high = (12, 32_767) if transactions.adds_by_itself else (7, 11)
        if any(topic.topic_id == ZERO_UUID for topic in topics.values()):
            high = min(high, 12)
        version = connection.version_of(_PRODUCE, low=low, high=high)
        response = await connection.request(request, version=version)
        metadata.note_endpoints(response.node_endpoints)
        # Use the names in the request: the metadata's name for an id may have changed since.
        names = {topic.topic_id: name for name, topic in topics.items()}
        answers = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), p.index): p
            for topic in response.responses
            for p in topic.partition_responses
        }
        return [queue for queue in queues if self._settle(queue, answers.get(queue.partition))]

    def _settle(self, queue: _Queue, answer: Any) -> bool:
        """Return whether the batch in flight is in the log, and if so advance the queue to its next
        batch."""
        code = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else answer.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._moved_at = trio.current_time()
            self._advance(queue)
            return True
        said = None if answer is None else answer.error_message
        error = KafkaError(code, said or f"Produce to {queue.partition}")
        if code == ErrorCode.MESSAGE_TOO_LARGE:
            error = KafkaError(
                code, f"{queue.partition} refuses a batch of this size; lower kafka.batch.size"
            )
        if error.retriable:
            self._problem = error
        else:
            self._fatal = error
        return False

    def _advance(self, queue: _Queue) -> bool:
        """Make the next batch the head, and write the producer's identity into it. Returns False if
        there is no next batch."""
        if queue.head is not None:
            queue.sequence = (queue.sequence + read_header(queue.head).count) % SEQUENCES
        queue.head = next(queue.rest, None)
        if queue.head is None:
            return False
        batch, identity = queue.head, self._identity
        if self._transactions is not None:
            batch[_ATTRIBUTES_LOW] |= TRANSACTIONAL_BIT
        batch[43:51] = identity.producer_id.to_bytes(8, "big", signed=True)
        batch[51:53] = identity.producer_epoch.to_bytes(2, "big", signed=True)
        batch[53:57] = queue.sequence.to_bytes(4, "big", signed=True)
        write_crc(batch)
        return True
