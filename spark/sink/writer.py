"""The data source's writers for `write` and `writeStream`: tasks seal records, and the driver
publishes them."""

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pk.spark.connections import connections
from pk.spark.session.collector import freeze_modules
from pk.spark.sink.commit import open_publisher, publish_batch, publish_job, publish_sealed
from pk.spark.sink.messages import SealedMessage, collect, inline_limit, remove_staged
from pk.spark.sink.options import Delivery, SinkOptions
from pk.spark.sink.seal import Sealed, seal

_QUERY: str = "sql.streaming.queryId"
_BATCH: str = "streaming.sql.batchId"
_RESULTS: str = "spark.driver.maxResultSize"


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """A writer of a stream's batches, each in one transaction with a marker."""

    def __init__(self, options: SinkOptions, encoders: tuple[Any, ...] = ()) -> None:
        """`encoders` are the encoders of columns with schemas (pk.spark.schemas.writing)."""
        self.options = options
        self.encoders = encoders
        freeze_modules()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Seal the rows of a task. Raises RowRefused, Unencodable, StagingFailed, KafkaError,
        ClientError."""
        query_id, batch_id = task_property(_QUERY), int(task_property(_BATCH) or 0)
        assert query_id is not None
        rows = encoded_rows(iterator, self.encoders)
        return _written(rows, self.options, query_id, batch_id, query_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Publish a batch. Raises CheckpointTooOld, MarkerUnreadable, StagingFailed, KafkaError,
        ClientError."""
        sealed = _sealed(messages)
        query_id = next((m.query_id for m in sealed if m.query_id is not None), None)
        if self.options.delivery is Delivery.EXACTLY_ONCE and query_id is not None:
            full = [message for message in sealed if message.sections]
            if full:
                connections().run(publish_batch, self.options, query_id, batchId, full)
        self._remove(sealed, batchId, query_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        sealed = _sealed(messages)
        self._remove(sealed, batchId, next((m.query_id for m in sealed), None))

    def _remove(self, sealed: list[SealedMessage], batch_id: int, query_id: str | None) -> None:
        place = self.options.staging
        folder = f"{place}/{query_id}" if place is not None and query_id is not None else None
        remove_staged(sealed, folder, batch_id)


class KafkaBatchWriter(DataSourceArrowWriter):
    """A writer of the rows of a batch job in one transaction, with a marker if they are a stream's
    batch."""

    def __init__(self, options: SinkOptions, encoders: tuple[Any, ...] = ()) -> None:
        """`encoders` are the encoders of columns with schemas (pk.spark.schemas.writing)."""
        self.options = options
        self.encoders = encoders
        # All attempts of a stream's batch have the same id, so that the staged files of earlier
        # attempts are found.
        self.job_id = str(uuid.uuid4()) if options.batch is None else options.batch.query_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Seal the rows of a task. Raises RowRefused, Unencodable, StagingFailed, KafkaError,
        ClientError."""
        return _written(encoded_rows(iterator, self.encoders), self.options, self.job_id, 0, None)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish the records. Raises CheckpointTooOld, MarkerUnreadable, StagingFailed,
        KafkaError, ClientError."""
        sealed = _sealed(messages)
        full = [message for message in sealed if message.sections]
        batch = self.options.batch
        if self.options.delivery is Delivery.EXACTLY_ONCE and full:
            if batch is None:
                connections().run(publish_job, self.options, self.job_id, full)
            else:
                connections().run(publish_batch, self.options, batch.query_id, batch.batch_id, full)
        self._remove(sealed)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._remove(_sealed(messages))

    def _remove(self, sealed: list[SealedMessage]) -> None:
        place = self.options.staging
        remove_staged(sealed, None if place is None else f"{place}/{self.job_id}")


def encoded_rows(
    rows: Iterator[pa.RecordBatch], encoders: tuple[Any, ...]
) -> Iterator[pa.RecordBatch]:
    """Encode the columns with schemas. Raises Unencodable."""
    if not encoders:
        return rows
    from pk.spark.schemas.writing import encoded

    return encoded(rows, encoders)


def _written(
    rows: Iterator[pa.RecordBatch],
    options: SinkOptions,
    folder: str,
    batch_id: int,
    query_id: str | None,
) -> SealedMessage:
    """Seal the rows of a task. With at-least-once delivery, also publish them at once."""
    freeze_modules()
    context = TaskContext.get()
    assert context is not None
    task = context.partitionId()
    sealed = seal_rows(rows, options, task + batch_id)
    if options.delivery is Delivery.AT_LEAST_ONCE:
        publish_now(sealed, options)
        return SealedMessage.of(None, query_id)
    return collect(
        sealed,
        limit=inline_limit(task, task_property(_RESULTS)),
        place=options.staging,
        name=f"{folder}/{batch_id}/{task}-{uuid.uuid4()}",
        query_id=query_id,
    )


def publish_now(sealed: Iterator[Sealed], options: SinkOptions) -> None:
    """Publish the batches of a task without transactions. Raises KafkaError, ClientError."""
    kept = connections()
    publisher = kept.run(open_publisher, options)
    for part in sealed:
        kept.run(publish_sealed, publisher, part)


def seal_rows(rows: Iterator[pa.RecordBatch], options: SinkOptions, turn: int) -> Iterator[Sealed]:
    """Seal the rows of a task. Raises RowRefused, KafkaError, ClientError."""
    kept, config = connections(), options.config

    async def count(topic: str) -> int:
        cluster = await kept.cluster(options.bootstrap, config)
        info = await cluster.topic(
            topic, timeout_ms=config.max_block_ms, allow_auto_topic_creation=True
        )
        return len(info.partitions)

    return seal(
        rows,
        topic=options.topic,
        config=config,
        partitions_of=lambda topic: kept.run(count, topic),
        turn=turn,
    )


def task_property(name: str) -> str | None:
    """The value of a local property of the running task."""
    context = TaskContext.get()
    assert context is not None
    return context.getLocalProperty(name)


def _sealed(messages: Sequence[WriterCommitMessage | None]) -> list[SealedMessage]:
    """The messages of completed tasks; an aborted job lacks some."""
    return [message for message in messages if isinstance(message, SealedMessage)]
