"""The data source's reader for `readStream`: one reader next to the driver, whose methods Spark
calls in turn, and its copies in tasks.

Spark creates the reader in a separate Python process, which runs as long as the query, and sends a
pickled copy to each task. The copies only read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pk.spark.connections import connections
from pk.spark.read.batch_reader import rows
from pk.spark.read.options import SourceOptions
from pk.spark.read.range_partition import RangePartition
from pk.spark.stream.offsets import StreamOffset
from pk.spark.stream.progress import Progress, ranges_between

if TYPE_CHECKING:
    from pk.spark.schemas.reading import Reading


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that reads topics as a stream. Its methods raise DataLost, OptionError, WrongOffset,
    Undecodable, KafkaError and ClientError."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType | None = None,
        reading: Reading | None = None,
    ) -> None:
        self.options = options
        self.schema = schema
        self.reading = reading
        self._progress: Progress | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_progress": None}

    def initialOffset(self) -> dict[str, Any]:
        return StreamOffset().json()

    def getDefaultReadLimit(self) -> ReadLimit:
        limits = self.options.limits
        if limits.offsets_max is not None:
            return ReadMaxRows(limits.offsets_max)
        if limits.offsets_min is not None:
            return ReadMinRows(limits.offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        connections().run(self._stop_at_latest)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        # Trigger.Once requests everything, regardless of the options, also from Spark's own source.
        limited = not isinstance(limit, ReadAllAvailable)
        return connections().run(self._next, StreamOffset.parse(start), limited).json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        latest = self._progress.latest if self._progress is not None else StreamOffset()
        return None if latest.is_initial else latest.json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin, stop = StreamOffset.parse(start), StreamOffset.parse(end)
        ranges = ranges_between(begin, stop, self.options)
        schemas = self.reading.written() if self.reading is not None and ranges else None
        return [RangePartition(r, schemas) for r in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition) and partition.wanted is not None
        yield from rows(partition, self.options, self.schema, self.reading)

    async def _stop_at_latest(self) -> None:
        await (await self._opened()).stop_at_latest()

    async def _next(self, start: StreamOffset, limited: bool) -> StreamOffset:
        return await (await self._opened()).next(start, limited=limited)

    async def _opened(self) -> Progress:
        if self._progress is None:
            kept, read_options = connections(), self.options.read
            cluster = await kept.cluster(read_options.bootstrap, read_options.config)
            self._progress = Progress(cluster, kept.nursery, self.options)
        return self._progress
