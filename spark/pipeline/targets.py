"""Checks that a pipeline's sinks can store its rows, before the pipeline runs.

`pk spark pipeline check` and each start of a pipeline call the same function, so a pipeline that
passes the check is not refused when it starts. Nothing is written.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from pk.spark.errors import SparkError, SparkFailed, TargetRefused
from pk.spark.files.causes import one_sentence
from pk.spark.files.columns import arrow_columns
from pk.spark.files.object_path import spark_url
from pk.spark.locations import is_remote, scheme
from pk.spark.pipeline.definition import (
    DeltaSink,
    IcebergSink,
    JdbcSink,
    KeyedSink,
    ParquetSink,
    Pipeline,
    Sink,
    WrongPipeline,
)
from pk.spark.pipeline.jdbc_sink import Database, has_driver
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.row_changes import check_changes, table_rows
from pk.spark.pipeline.table_sinks import catalog_of, table_store
from pk.spark.reasons import DRIVER_JAR, NO_DRIVER, jdbc_sentence, reason, sentence
from pk.spark.tables.lake_commit import check_iceberg, delta_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_target(pipeline: Pipeline, places: Places, sink: Sink, frame: "DataFrame") -> None:
    """Raise WrongPipeline if a sink cannot write the rows to its target."""
    if isinstance(sink, KeyedSink):
        check_changes(pipeline, sink, frame)
        frame = table_rows(sink, frame)
    names = getattr(sink, "partition_by", None)
    if isinstance(names, tuple):
        _check_columns(pipeline, sink, frame, names)
    if isinstance(sink, ParquetSink):
        if scheme(sink.parquet) is not None:
            _check_file_system(pipeline, sink, frame.sparkSession)
        else:
            _check_directory(pipeline, sink, "parquet", places.path(sink.parquet))
    elif isinstance(sink, DeltaSink):
        if not is_remote(sink.delta):
            _check_directory(pipeline, sink, "delta", places.path(sink.delta))
        _check_delta(pipeline, places, sink, frame)
    elif isinstance(sink, IcebergSink):
        _check_iceberg(pipeline, places, sink, frame)
    elif isinstance(sink, JdbcSink):
        _check_jdbc(pipeline, places, sink, frame)


def check_every(pipeline: Pipeline, stream: "DataFrame") -> None:
    """Raise WrongPipeline if Spark cannot parse `every`."""
    from py4j.protocol import Py4JError

    if pipeline.every is None:
        return
    try:
        stream.writeStream.trigger(processingTime=pipeline.every)
    except (PySparkException, Py4JError):
        message = f"every must look like '10 seconds' or '5 minutes', not {pipeline.every!r}"
        raise pipeline.problem(("every",), message) from None


def _check_columns(
    pipeline: Pipeline, sink: Sink, frame: "DataFrame", names: tuple[str, ...]
) -> None:
    known = {name.lower() for name in frame.columns}
    for name in names:
        if name.lower() not in known:
            has = ", ".join(frame.columns)
            raise pipeline.problem(
                (*sink.path, "partition_by"), f"{sink.source} has no column {name!r}; it has {has}"
            )


def _check_directory(pipeline: Pipeline, sink: Sink, key: str, directory: Path) -> None:
    existing = next(each for each in (directory, *directory.parents) if each.exists())
    wrong = None
    if not existing.is_dir():
        wrong = "is not a directory"
    elif not os.access(existing, os.W_OK | os.X_OK):
        wrong = "cannot be written to"
    if wrong is not None:
        raise pipeline.problem((*sink.path, key), f"{existing} {wrong}")


def _check_file_system(pipeline: Pipeline, sink: ParquetSink, spark: "SparkSession") -> None:
    """Raise WrongPipeline if Spark lacks the file system of a URL."""
    from py4j.protocol import Py4JError

    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage] - Hadoop's file systems
    session: Any = spark._jsparkSession  # pyright: ignore[reportPrivateUsage]
    try:
        path = jvm.org.apache.hadoop.fs.Path(spark_url(sink.parquet))
        path.getFileSystem(session.sessionState().newHadoopConf())
    except Py4JError as e:
        message = (
            f"Spark cannot write to {sink.parquet}: {reason(e)}; [spark] names the jars of "
            "its file system"
        )
        raise pipeline.problem((*sink.path, "parquet"), message) from e


def _check_delta(pipeline: Pipeline, places: Places, sink: DeltaSink, frame: "DataFrame") -> None:
    path = (*sink.path, "delta")
    try:
        columns = delta_columns(places.store(sink.delta), frame.schema.json())
    except SparkError as e:
        raise pipeline.problem(path, str(e)) from e
    except Exception as e:  # deltalake has errors of its own
        message = f"the table in {sink.delta} cannot be read: {one_sentence(e)}"
        raise pipeline.problem(path, message, passing=True) from e
    if columns is not None and columns != sink.partition_by:
        has = ", ".join(columns) or "none"
        message = f"the table in {sink.delta} is partitioned by other columns: {has}"
        raise pipeline.problem((*sink.path, "partition_by"), message)


def _check_iceberg(
    pipeline: Pipeline, places: Places, sink: IcebergSink, frame: "DataFrame"
) -> None:
    path = (*sink.path, "iceberg")
    try:
        catalog = catalog_of(sink, places, make=False)
        if catalog is not None and catalog.table_exists(sink.iceberg):
            table = catalog.load_table(sink.iceberg)
            table_store(table)
            check_iceberg(table, arrow_columns(frame.schema))
    except SparkError as e:
        raise pipeline.problem(path, str(e)) from e
    except PySparkException as e:
        raise pipeline.problem((*sink.path, "from"), sentence(e)) from e
    except Exception as e:  # pyiceberg and its catalogs have errors of their own
        message = f"the catalog cannot be used: {one_sentence(e)}"
        raise pipeline.problem((*sink.path, "catalog"), message, passing=True) from e


def _check_jdbc(pipeline: Pipeline, places: Places, sink: JdbcSink, frame: "DataFrame") -> None:
    spark, url = frame.sparkSession, places.jdbc(sink.jdbc)
    path = (*sink.path, "jdbc")
    try:
        if not has_driver(spark, url, sink.options):
            raise pipeline.problem(path, f"{NO_DRIVER}: {DRIVER_JAR}")
        if url.startswith("jdbc:sqlite:") and _missing_file(pipeline, sink, url):
            return  # a connection would create the file
        with Database(spark, url, sink.options) as database:
            database.check_rows(sink.table, frame)
    except WrongPipeline:
        raise
    except SparkFailed as e:
        passing = not isinstance(e, TargetRefused)
        raise pipeline.problem(path, jdbc_sentence(e), passing=passing) from e


def _missing_file(pipeline: Pipeline, sink: JdbcSink, url: str) -> bool:
    """Whether a SQLite file does not exist yet. Raises WrongPipeline if it cannot be created."""
    name = url.removeprefix("jdbc:sqlite:").partition("?")[0]
    file = Path(name)
    if not file.is_absolute() or file.exists():
        return False
    _check_directory(pipeline, sink, "jdbc", file.parent)
    if not file.parent.is_dir():
        raise pipeline.problem((*sink.path, "jdbc"), f"the directory {file.parent} does not exist")
    return True
