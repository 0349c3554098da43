"""Publishes a batch in one transaction, on the driver, after all of its tasks are done.

A stream's transaction also holds a marker with the number of its batch. If the driver dies after
its commit and before Spark has recorded it, Spark commits the batch again, possibly with other rows
in other tasks. Then the marker exists, and nothing is published. The order of the steps ensures
this:

1. Initialize the transactional id, which contains the query's id. The coordinator ends an
   earlier driver's open transaction, and fences that driver from then on.
2. Read the marker. Everything that was committed earlier is visible now.
3. Publish the batches and the marker, and commit.

If the outcome of the commit is unknown, repeating these steps resolves it.
"""

import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client.cluster import Cluster
from pk.net.client.errors import ClientError, TransactionOutcomeUnknown
from pk.net.client.transaction import Transactions
from pk.spark.connections import connections
from pk.spark.errors import SparkError
from pk.spark.sink.marker import Marker, Markers, encode_deletes
from pk.spark.sink.messages import SealedMessage
from pk.spark.sink.options import SinkOptions
from pk.spark.sink.publish import Identity, Publisher, new_identity
from pk.spark.sink.seal import Sealed

_ATTEMPTS: Final = 3
_TIMEOUT_MS: Final = 60_000
_TIMEOUT_MAX_MS: Final = 900_000
"""Kafka's default of transaction.max.timeout.ms."""

_BYTES_A_MS: Final = 2_000
"""The lowest speed that is expected for publishing, which determines the transaction's timeout."""

_RETRIED_ERRORS: Final = (
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
"""Errors by which a broker and this producer disagree about the written records: the transaction is
aborted and tried again."""


class CheckpointTooOld(SparkError):
    """The query's checkpoint is older than the last batch that the query has published."""


async def publish_batch(
    options: SinkOptions, query_id: str, batch_id: int, messages: Sequence[SealedMessage]
) -> bool:
    """Publish a stream's batch. Returns False if it is already published.

    Raises CheckpointTooOld, MarkerUnreadable, StagingFailed, KafkaError, ClientError.
    """
    cluster = await connections().cluster(options.bootstrap, options.config)
    for attempt in range(_ATTEMPTS):
        try:
            return await _publish_batch(cluster, options, query_id, batch_id, messages)
        except (KafkaError, ClientError) as e:
            if attempt == _ATTEMPTS - 1 or not may_retry(e):
                raise
    raise AssertionError


def may_retry(error: Exception) -> bool:
    """Whether the same transaction may succeed if it is tried again."""
    if isinstance(error, KafkaError):
        return error.retriable or error.code in _RETRIED_ERRORS
    return isinstance(error, ClientError)


async def _publish_batch(
    cluster: Cluster,
    options: SinkOptions,
    query_id: str,
    batch_id: int,
    messages: Sequence[SealedMessage],
) -> bool:
    commit = BatchCommit(cluster, options, query_id, batch_id, size_of(messages))
    if not await commit.take_over():
        return False
    await commit.publish(messages, sum(message.records for message in messages))
    return True


class BatchCommit:
    """The transaction of a stream's batch, on the driver. Runs in the process's loop
    (pk.spark.connections)."""

    def __init__(
        self, cluster: Cluster, options: SinkOptions, query_id: str, batch_id: int, size: int
    ) -> None:
        """`size` is the number of bytes to publish."""
        self.markers = Markers(cluster, options, query_id)
        self._cluster = cluster
        self._options = options
        self._query_id = query_id
        self._batch_id = batch_id
        self._partition: TopicPartition | None = None
        self._identity, self._transactions = open_transactions(cluster, options, query_id, size)

    async def take_over(self) -> bool:
        """Fence earlier drivers, so that they cannot publish the batch. Returns False if the batch
        is already published.

        Raises CheckpointTooOld, MarkerUnreadable, KafkaError, ClientError.
        """
        query_id, batch_id = self._query_id, self._batch_id
        self._partition = await self.markers.partition()
        await self._transactions.begin()
        last = await self.markers.last(self._partition)
        if last is None or last.batch_id < batch_id:
            return True
        self.leave()
        if last.batch_id > batch_id:
            raise CheckpointTooOld(
                f"query {query_id} has published batch {last.batch_id}, and its checkpoint asks for"
                f" batch {batch_id} again: the checkpoint was restored from a copy, or another "
                "driver runs this query; to begin again, use a new checkpoint"
            )
        return False

    def leave(self) -> None:
        """End the transaction without publishing."""
        self._transactions.leave()

    async def publish(
        self, messages: Sequence[SealedMessage], records: int, files: Sequence[str] = ()
    ) -> None:
        """Publish messages together with the batch's marker, which has the number of the batch's
        records, and delete the markers of `files`. `take_over` must have been called.

        Raises StagingFailed, KafkaError, ClientError.
        """
        partition, now_ms = self._partition, time.time_ns() // 1_000_000
        assert partition is not None
        marker = Marker(self._batch_id, records).encode(self._query_id, now_ms)
        deletes = encode_deletes(self._query_id, files, now_ms)
        publisher = Publisher(
            self._cluster, self._options.config, self._identity, self._transactions
        )
        try:
            await publisher.publish(by_partition(messages))
            await publisher.publish({partition: chain([marker], deletes)})
            await self._transactions.end(commit=True)
        except BaseException as e:
            await abort(self._transactions, e)
            raise


async def publish_job(options: SinkOptions, job_id: str, messages: Sequence[SealedMessage]) -> None:
    """Publish the records of a batch job, in one transaction. Raises StagingFailed, KafkaError,
    ClientError."""
    cluster = await connections().cluster(options.bootstrap, options.config)
    identity, transactions = open_transactions(cluster, options, job_id, size_of(messages))
    await transactions.begin()
    try:
        publisher = Publisher(cluster, options.config, identity, transactions)
        await publisher.publish(by_partition(messages))
        await transactions.end(commit=True)
    except BaseException as e:
        await abort(transactions, e)
        raise


async def open_publisher(options: SinkOptions) -> Publisher:
    """Open a publisher without transactions, for a task that may repeat records. Raises KafkaError,
    ClientError."""
    cluster = await connections().cluster(options.bootstrap, options.config)
    return Publisher(cluster, options.config, await new_identity(cluster, options.config))


async def publish_sealed(publisher: Publisher, sealed: Sealed) -> None:
    """Publish the batches that a task sealed. Raises KafkaError, ClientError."""
    await publisher.publish(by_partition([SealedMessage.of(sealed)]))


def size_of(messages: Sequence[SealedMessage]) -> int:
    """The size of messages in bytes."""
    return sum(section.size for message in messages for section in message.sections)


def open_transactions(
    cluster: Cluster, options: SinkOptions, name: str, size: int
) -> tuple[Identity, Transactions]:
    """A producer's identity, and its transactions of about `size` bytes. The transactional id
    contains `name`."""
    config = replace(options.config, transactional_id=f"pk-spark-{name}")
    if "transaction.timeout.ms" not in options.client:
        timeout_ms = min(_TIMEOUT_MS + size // _BYTES_A_MS, _TIMEOUT_MAX_MS)
        config = replace(config, transaction_timeout_ms=timeout_ms)
    identity = Identity()
    return identity, Transactions(cluster, config, identity)


async def abort(transactions: Transactions, error: BaseException) -> None:
    """Abort the transaction after `error`, so that readers need not wait for its timeout. Errors of
    the abort itself are ignored."""
    if isinstance(error, TransactionOutcomeUnknown) or not isinstance(error, Exception):
        transactions.leave()
        return
    try:
        await transactions.end(commit=False)
    except (KafkaError, ClientError):
        transactions.leave()


def by_partition(messages: Sequence[SealedMessage]) -> dict[TopicPartition, Iterator[bytearray]]:
    """The batches of each partition, in the order of the tasks. They are read as they are
    needed."""
    sections: dict[TopicPartition, list[tuple[SealedMessage, int]]] = {}
    for message in messages:
        for index, section in enumerate(message.sections):
            tp = TopicPartition(section.topic, section.partition)
            sections.setdefault(tp, []).append((message, index))

    def batches(found: list[tuple[SealedMessage, int]]) -> Iterator[bytearray]:
        for message, index in found:
            yield from message.batches(message.sections[index])

    return {tp: batches(found) for tp, found in sections.items()}
