"""The data source's reader for `spark.read`: plans ranges in the driver's planning process, and
reads them in tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import trio
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pk.spark.read.options import SourceOptions
from pk.spark.read.plan import plan
from pk.spark.read.range_partition import RangePartition
from pk.spark.read.reader import read
from pk.spark.session.collector import freeze_modules

if TYPE_CHECKING:
    from pk.spark.schemas.reading import Reading


class KafkaReader(DataSourceReader):
    """A reader that reads topics once, as a table. `reading` decodes keys and values to the columns
    of `schema`."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType | None = None,
        reading: Reading | None = None,
    ) -> None:
        self.options = options
        self.schema = schema
        self.reading = reading

    def partitions(self) -> list[InputPartition]:
        """Plan the ranges. Raises OptionError, DataLost, KafkaError, ClientError."""
        ranges = trio.run(plan, self.options)
        schemas = None if self.reading is None else self.reading.written()
        return [RangePartition(r, schemas) for r in ranges] or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range in a task. Raises Undecodable, and as pk.spark.read.reader.read."""
        assert isinstance(partition, RangePartition)
        if partition.wanted is not None:
            yield from rows(partition, self.options, self.schema, self.reading)


def rows(
    partition: RangePartition,
    options: SourceOptions,
    schema: StructType | None,
    reading: Reading | None,
) -> Iterator[pa.RecordBatch]:
    """The records of a task's range. Raises Undecodable, and as pk.spark.read.reader.read."""
    assert partition.wanted is not None
    freeze_modules()
    raw = read(partition.wanted, options.read)
    if reading is None:
        yield from raw
        return
    assert schema is not None and partition.schemas is not None
    yield from reading.rows(raw, partition.schemas, schema)
