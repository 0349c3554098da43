"""`format("pk")`: Kafka topics as tables and streams of Spark, over the wire protocol.

    reader = spark.read.format("pk").option("kafka.bootstrap.servers", "localhost:9092")
    rows = reader.option("subscribe", "orders").load()

Options and columns are those of Spark's own Kafka source (pk.spark.read.options), so a job migrates
by changing the name of the format. Spark discovers the source by itself, through the module
`pyspark_pk`. It creates the source, its readers and its writers in Python processes next to the
driver and sends them to tasks, so all of these classes are pickled.

Every session imports each installed data source, so this file defers its imports until a reader or
writer is created.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pk.spark.errors import OptionError

if TYPE_CHECKING:
    from pk.spark.read.batch_reader import KafkaReader
    from pk.spark.read.options import SourceOptions
    from pk.spark.schemas.reading import Reading
    from pk.spark.sink.options import SinkOptions
    from pk.spark.sink.writer import KafkaBatchWriter, KafkaStreamWriter
    from pk.spark.stream.reader import KafkaStreamReader

NAME = "pk"

SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp,"
    " timestampType int"
)
"""The columns of Spark's Kafka source, in DDL."""

HEADERS = "headers array<struct<key:string,value:binary>>"
"""The column that `includeHeaders` adds."""


class KafkaSource(DataSource):
    """The data source. Its methods raise OptionError for unknown or wrong options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str | StructType:
        given = {name.lower(): value for name, value in self.options.items()}
        headers = given.get("includeheaders", "false").lower() == "true"
        if any(name.endswith(".format") for name in given):
            from pk.spark.schemas.source_columns import reading_of, typed

            return typed(reading_of(dict(self.options)), headers=headers)
        return f"{SCHEMA}, {HEADERS}" if headers else SCHEMA

    def reader(self, schema: StructType) -> "KafkaReader":
        from pk.spark.read.batch_reader import KafkaReader

        return KafkaReader(*self._reading(schema, stream=False))

    def streamReader(self, schema: StructType) -> "KafkaStreamReader":
        from pk.spark.stream.reader import KafkaStreamReader

        return KafkaStreamReader(*self._reading(schema, stream=True))

    def _reading(
        self, schema: StructType, *, stream: bool
    ) -> "tuple[SourceOptions, StructType, Reading | None]":
        from pk.spark.read.options import parse_options
        from pk.spark.schemas.options import split_options

        rest, schemas = split_options(dict(self.options))
        options = parse_options(rest, stream=stream)
        if schemas is None:
            return options, schema, None
        from pk.spark.schemas.source_columns import reading_of

        reading = reading_of(dict(self.options))
        reading.choose(schema)
        # Headers may name schemas, even if the query does not have the column.
        return replace(options, read=replace(options.read, headers=True)), schema, reading

    def writer(self, schema: StructType, overwrite: bool) -> "KafkaBatchWriter":
        from pk.spark.sink.writer import KafkaBatchWriter

        if overwrite:
            raise OptionError("a topic cannot be overwritten; use mode append")
        options, encoders = self.writing(schema)
        return KafkaBatchWriter(options, encoders)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "KafkaStreamWriter":
        from pk.spark.sink.writer import KafkaStreamWriter

        options, encoders = self.writing(schema)
        if options.batch is not None:
            raise OptionError(
                "queryId and batchId are for a write in foreachBatch, not for a stream"
            )
        return KafkaStreamWriter(options, encoders)

    def writing(self, schema: StructType) -> "tuple[SinkOptions, tuple[Any, ...]]":
        """The options for writing rows of this schema, and the encoders of columns with schemas."""
        from pk.spark.schemas.options import split_options
        from pk.spark.sink.options import check_columns, parse_sink_options

        rest, schemas = split_options(dict(self.options), sink=True)
        options = parse_sink_options(rest)
        encoders: tuple[Any, ...] = ()
        if schemas is not None:
            from pk.spark.schemas.writing import encoders as encoders_of
            from pk.spark.schemas.writing import without_encoded

            encoders = encoders_of(schemas, schema, options.topic)
            schema = without_encoded(schema, encoders)
        check_columns(schema, options.topic)
        return options, encoders
