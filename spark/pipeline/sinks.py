"""Creates the queries of a pipeline: one for each sink, with its own checkpoint.

A sink gets each batch as a whole with its number, so that a batch that is repeated after a crash
changes nothing.

Dead letters are written together with the records of the first topic sink that reads from their
source, so that both are in one transaction. Without such a sink they have a query of their own.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, StringType

from pk.net.client.errors import ConfigError
from pk.spark.errors import OptionError
from pk.spark.files.object_path import spark_url
from pk.spark.locations import scheme
from pk.spark.pipeline.definition import (
    DeltaSink,
    IcebergSink,
    JdbcSink,
    ParquetSink,
    Pipeline,
    Sink,
    TopicSink,
)
from pk.spark.pipeline.jdbc_sink import write_jdbc
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.query import Query
from pk.spark.pipeline.registry_sources import check_encoders, sink_options
from pk.spark.pipeline.relations import Relations
from pk.spark.pipeline.table_sinks import write_delta, write_iceberg, write_parquet
from pk.spark.pipeline.targets import check_every, check_target
from pk.spark.reasons import sentence
from pk.spark.schemas.options import split_options
from pk.spark.sink import DRIVER_BYTES
from pk.spark.sink.foreach_batch import write_batch
from pk.spark.sink.options import check_columns, parse_sink_options
from pk.spark.tables.compaction import Compaction
from pk.spark.text.json_writing import as_bytes, as_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

DEAD_LETTERS: Final = "dead-letters"
"""The name of the query for dead letters that no topic sink writes."""


def queries(
    pipeline: Pipeline,
    places: Places,
    shared: Relations,
    kafka: Mapping[str, str],
    own: Mapping[str, Relations] | None = None,
) -> list[Query]:
    """Create the queries. `own` maps sinks whose query skips records to the relations without these
    records. Raises WrongPipeline, for example if a sink's target cannot be written."""
    waiting = set(shared.dead_letters)
    found: list[Query] = []
    for sink in pipeline.sinks:
        relations = (own or {}).get(sink.name, shared)
        frame = relations.frames[sink.source]
        uses = relations.uses[sink.source]
        if not frame.isStreaming:
            raise pipeline.problem((*sink.path, "from"), f"{sink.source} is not a stream")
        check_every(pipeline, frame)
        check_target(pipeline, places, sink, frame)
        if isinstance(sink, TopicSink):
            try:
                options = topic_options(pipeline, kafka, sink)
                parse_sink_options(split_options(options, sink=True)[0])
            except (OptionError, ConfigError) as e:
                raise pipeline.problem((*sink.path, "options"), str(e)) from e
            frame = records(pipeline, sink, frame)
            check_encoders(pipeline, sink, options, frame.schema)
            # With the mode complete, all rows must be aggregated, and with a schema, all rows must
            # have its columns.
            if sink.mode != "complete" and not sink.formats:
                for name in sorted(uses & waiting):
                    waiting.remove(name)
                    letters = relations.dead_letters[name]
                    frame = frame.unionByName(letters, allowMissingColumns=True)
        found.append(Query(sink.name, frame, sink.output_mode, uses, sink))
    if waiting:
        frames = [shared.dead_letters[name] for name in sorted(waiting)]
        letters = frames[0]
        for other in frames[1:]:
            letters = letters.unionByName(other)
        found.append(Query(DEAD_LETTERS, letters, "append", frozenset(waiting), None))
    return found


def records(pipeline: Pipeline, sink: TopicSink, frame: "DataFrame") -> "DataFrame":
    """Convert the rows to records of the topic."""
    columns = {
        name: f.col(name) for name in ("key", "headers", "partition") if name in frame.columns
    }
    at = "key"
    try:
        types = {field.name: field.dataType for field in frame.schema.fields}
        if sink.key is not None:
            columns["key"] = f.expr(sink.key)
            _check_key(sink, frame)
        at = "value"
        if sink.value is not None:
            columns["value"] = f.expr(sink.value)
        elif sink.format is not None:
            columns["value"] = f.struct("*")
        elif isinstance(types.get("value"), StringType | BinaryType):
            columns["value"] = f.col("value")
        else:
            columns["value"] = as_json(f.struct("*"))
        if sink.value is None and not isinstance(types.get("value"), StringType | BinaryType):
            for name in ("headers", "partition"):  # these are the source's own columns
                columns.pop(name, None)
        plain = frame.select(*(column.alias(name) for name, column in columns.items()))
        names = [field.name for field in plain.schema.fields]
        kinds = {field.name: field.dataType for field in plain.schema.fields}
        if sink.key_format is not None and "key" not in columns:
            message = "key is missing: the expression for the keys"
            raise pipeline.problem((*sink.path, "key_format"), message)
        rows = plain.select(
            *(
                f.col(name)
                if name in sink.formats
                else as_bytes(f.col(name), kinds[name]).alias(name)
                for name in ("key", "value")
                if name in names
            ),
            *(f.col(name) for name in ("headers", "partition") if name in names),
            f.lit(sink.topic).alias("topic"),
        )
        # The sink encodes the columns with schemas to bytes.
        shown = rows.withColumns({name: f.lit(b"") for name in sink.formats})
        check_columns(shown.schema, None)
        return rows
    except PySparkException as e:
        path = (*sink.path, at if getattr(sink, at) else "from")
        raise pipeline.problem(path, sentence(e)) from e
    except ValueError as e:
        raise pipeline.problem((*sink.path, "from"), str(e)) from e


def _check_key(sink: TopicSink, frame: "DataFrame") -> None:
    """Make Spark analyze only the key, so that an error must be the key's. Raises
    PySparkException."""
    assert sink.key is not None
    key = frame.select(f.expr(sink.key).alias("key"))
    if "key" not in sink.formats:
        key.select(as_bytes(f.col("key"), key.schema["key"].dataType))


def start(
    pipeline: Pipeline,
    places: Places,
    kafka: Mapping[str, str],
    query: Query,
    identity: str,
    once: bool,
    say: Callable[[str], None],
) -> "StreamingQuery":
    """Start a query. `say` gets the sink's messages for the user. Raises PySparkException,
    OSError."""
    writer = query.frame.writeStream.outputMode(query.mode).queryName(
        f"{pipeline.name}-{query.name}"
    )
    writer = writer.option("checkpointLocation", spark_url(places.query(query.name)))
    if once:
        writer = writer.trigger(availableNow=True)
    elif pipeline.every is not None:
        writer = writer.trigger(processingTime=pipeline.every)
    sink = query.sink
    if sink is None or isinstance(sink, TopicSink):
        write = partial(
            _write_topic,
            options=topic_options(pipeline, kafka, sink),
            checkpoint=str(places.query(query.name)),
            # An append query is identified by Spark's id, which is in the checkpoint; for other
            # modes, earlier versions used this name.
            query_id=None if query.mode == "append" else f"{identity}-{query.name}",
            atomic=sink is not None and sink.atomic,
            driver_bytes=DRIVER_BYTES if sink is None else sink.driver_bytes,
        )
        return writer.foreachBatch(write).start()
    if isinstance(sink, ParquetSink) and scheme(sink.parquet) is not None:
        url = spark_url(sink.parquet)
        # Spark's own sink is for file systems without an atomic rename; its list of files is only
        # for Spark's readers.
        return writer.format("parquet").partitionBy(*sink.partition_by).start(url)
    write_rows = _writer(places, sink, f"{identity}-{query.name}")
    if isinstance(sink, DeltaSink) and sink.compact_s is not None:
        store, remembered = places.store(sink.delta), places.compacted(sink.name)
        compaction = Compaction(sink.name, store, remembered, sink.compact_s, say)
        write_rows = _and_compact(write_rows, compaction)
    return writer.foreachBatch(write_rows).start()


def _and_compact(
    write: Callable[["DataFrame", int], None], compaction: Compaction
) -> Callable[["DataFrame", int], None]:
    def write_and_compact(frame: "DataFrame", batch: int) -> None:
        write(frame, batch)
        compaction.after_batch()

    return write_and_compact


def _write_topic(frame: "DataFrame", batch: int, **given: Any) -> None:
    """Adapt `write_batch` to Spark, which passes the frame and the batch number by position."""
    write_batch(frame, batch, **given)


def topic_options(
    pipeline: Pipeline, kafka: Mapping[str, str], sink: TopicSink | None
) -> dict[str, str]:
    """The options of a topic's sink: the options of all topics that apply to producers, and the
    sink's own."""
    from pk.net.client.config import ProducerConfig, keys

    known = {f"kafka.{name}" for name in keys(ProducerConfig)}
    common = {k: v for k, v in kafka.items() if k in known or k == "kafka.bootstrap.servers"}
    return common | (sink_options(pipeline, sink) if sink is not None else {})


def _writer(places: Places, sink: Sink, identity: str) -> Callable[["DataFrame", int], None]:
    if isinstance(sink, ParquetSink):
        return partial(write_parquet, sink, places, identity)
    if isinstance(sink, DeltaSink):
        return partial(write_delta, sink, places, identity)
    if isinstance(sink, IcebergSink):
        return partial(write_iceberg, sink, places, identity)
    assert isinstance(sink, JdbcSink)
    return partial(write_jdbc, sink, places, identity)
