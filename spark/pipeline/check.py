"""Checks a pipeline without running it, by applying Spark's analyzer and its rules for streams to
every step and sink.

The columns that steps need are read from the sources: the check samples a topic whose fields the
file does not declare, and reads the columns of files and of a database's table. Nothing is written.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pk.spark.pipeline.definition import (
    DeltaSink,
    IcebergSink,
    ParquetSink,
    Pipeline,
    Relation,
    Sink,
    WrongPipeline,
)
from pk.spark.pipeline.document import Problem
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.run import RunOptions, open_spark
from pk.spark.pipeline.upgrade import check_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pk.spark.pipeline.query import Query
    from pk.spark.pipeline.relations import Relations


@dataclass(frozen=True)
class Checked:
    """A relation or sink that passed the check."""

    kind: Literal["source", "table", "step", "sink"]
    name: str
    line: int
    columns: str
    """The columns and their types; for a sink, its destination."""


def check_pipeline(pipeline: Pipeline, options: RunOptions) -> list[Checked]:
    """Compare a pipeline with its checkpoint, and plan it in a Spark of its own. Raises
    WrongPipeline, SparkFailed, KafkaError, ClientError, OSError."""
    for said in check_changes(pipeline, Places(pipeline)):
        options.say(said)
    with open_spark(pipeline, options, long=False) as own:
        return check_in(own.session(), pipeline, options.kafka)


def check_in(spark: "SparkSession", pipeline: Pipeline, kafka: Mapping[str, str]) -> list[Checked]:
    """Plan a pipeline in a session, without running it. Raises WrongPipeline, KafkaError,
    ClientError."""
    from pk.spark.pipeline.fields import Fields
    from pk.spark.pipeline.registry_sources import RegistryVersions
    from pk.spark.pipeline.relations import Builder
    from pk.spark.pipeline.row_changes import table_rows
    from pk.spark.pipeline.sinks import queries

    places = Places(pipeline)
    fields = Fields(pipeline, places, kafka).known(spark)

    def built(versions: Mapping[str, Mapping[str, str]]) -> "Relations":
        return Builder(spark, pipeline, places, kafka, fields, versions).build()

    def planned(versions: Mapping[str, Mapping[str, str]]) -> "list[Query]":
        return queries(pipeline, places, built(versions), kafka)

    relations = built(RegistryVersions(pipeline, places, kafka).options(planned))
    problems: list[Problem] = []
    for query in queries(pipeline, places, relations, kafka):
        said = _unsupported(spark, query.frame, query.mode)
        if said is not None:
            path = () if query.sink is None else (*query.sink.path, "mode")
            problems.append(Problem(pipeline.document.at(path), said))
        elif isinstance(query.sink, ParquetSink | DeltaSink | IcebergSink):
            rows = table_rows(query.sink, query.frame)
            said = _not_parquet(spark, query.sink, rows)
            if said is not None:
                problems.append(Problem(pipeline.document.at((*query.sink.path, "from")), said))
    if problems:
        raise WrongPipeline(pipeline.file, problems)
    found: list[Checked] = []
    for relation in (*pipeline.sources, *pipeline.tables, *pipeline.steps):
        schema = relations.frames[relation.name].schema
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in schema.fields)
        line = pipeline.document.at(relation.path).line
        found.append(Checked(_kind(relation), relation.name, line, columns))
    for sink in pipeline.sinks:
        line = pipeline.document.at(sink.path).line
        found.append(Checked("sink", sink.name, line, where(sink)))
    return found


def _kind(relation: Relation) -> Literal["source", "table", "step"]:
    kinds: dict[object, Literal["source", "table", "step"]] = {
        "source": "source",
        "table": "table",
        "step": "step",
    }
    return kinds[relation.path[0]]


def where(sink: Sink) -> str:
    """A sink's destination, as written in the file."""
    for kind in ("topic", "parquet", "delta", "iceberg"):
        if hasattr(sink, kind):
            return f"{kind} {getattr(sink, kind)}"
    return f"{getattr(sink, 'jdbc', '')} {getattr(sink, 'table', '')}"


def _not_parquet(
    spark: "SparkSession", sink: ParquetSink | DeltaSink | IcebergSink, frame: "DataFrame"
) -> str | None:
    """The reason why Spark cannot write the rows as parquet files; None if it can. Spark checks the
    columns only when a write begins, so this writes files without rows, and removes them."""
    from pyspark.errors import PySparkException

    from pk.spark.pipeline.table_sinks import check_iceberg_columns
    from pk.spark.reasons import sentence

    names = () if isinstance(sink, IcebergSink) else sink.partition_by
    with tempfile.TemporaryDirectory(prefix="pk-check-") as folder:
        nothing, rows = spark.createDataFrame([], frame.schema), Path(folder, "rows")
        try:
            nothing.write.partitionBy(*names).parquet(f"file://{rows}")
            if isinstance(sink, IcebergSink):
                check_iceberg_columns(frame.schema)
        except PySparkException as e:
            return sentence(e)
        except ValueError as e:
            return str(e)
    return None


def _unsupported(spark: "SparkSession", frame: Any, mode: str) -> str | None:
    """The operation that Spark does not support on such a stream; None if it supports all of them.
    Without this check, only the start of the query would report it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from pk.spark.reasons import sentence

    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage] - the only way to Spark's own rules
    catalyst = jvm.org.apache.spark.sql.catalyst
    output_mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, mode.capitalize())()
    try:
        catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
            frame._jdf.queryExecution().analyzed(), output_mode
        )
    except PySparkException as e:
        return sentence(e)
    except Py4JJavaError as e:
        return sentence(Exception(str(e.java_exception.getMessage())))
    return None
