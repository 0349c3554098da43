"""`spark.read.format("pk")`: Kafka topics as a Spark table, read over the wire protocol.

    from pk.spark.source import KafkaSource

    spark.dataSource.register(KafkaSource)
    rows = spark.read.format("pk").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()

Options and columns are those of Spark's own Kafka source (pk.spark.options), so a job migrates by changing the name of the
format. Spark creates the source and plans the read in Python processes beside the driver, and reads each range in a task,
so everything in these classes is pickled.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import trio
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pk.spark.options import SourceOptions, parse_options
from pk.spark.plan import plan
from pk.spark.ranges import OffsetRange
from pk.spark.reader import read

NAME = "pk"

SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp,"
    " timestampType int"
)
"""The columns of Spark's Kafka source in DDL."""

HEADERS = "headers array<struct<key:string,value:binary>>"
"""The column that `includeHeaders` adds."""


@dataclass
class RangePartition(InputPartition):
    """One task's range. None if there is nothing to read, since Spark needs at least one partition."""

    wanted: OffsetRange | None


class KafkaSource(DataSource):
    """The data source. Its constructor raises OptionError for unknown or wrong options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        headers = parse_options(dict(self.options)).read.headers
        return f"{SCHEMA}, {HEADERS}" if headers else SCHEMA

    def reader(self, schema: StructType) -> "KafkaReader":
        return KafkaReader(parse_options(dict(self.options)))


class KafkaReader(DataSourceReader):
    """Plans ranges in the driver's planning process, and reads them in tasks."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """Raises OptionError, DataLost, KafkaError, ClientError."""
        ranges = trio.run(plan, self.options)
        return [RangePartition(r) for r in ranges] or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises as pk.spark.reader.read."""
        assert isinstance(partition, RangePartition)
        if partition.wanted is not None:
            yield from read(partition.wanted, self.options.read)
