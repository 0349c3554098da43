"""Decides whether a pipeline can continue with columns of wider types, which its state and its
sinks must support.

The plans with the current and with the wider types are compared. So a wider column has no effect on
the sinks if a step casts it, and none on the state of a step that does not use it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StructType,
)

from pk.spark.files.object_path import spark_url
from pk.spark.locations import scheme
from pk.spark.pipeline.definition import JdbcSink, ParquetSink, WrongPipeline
from pk.spark.pipeline.jdbc_sink import Database, TableColumn
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.row_changes import table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pk.spark.pipeline.query import Query

_KEEPS_KEYS: Final = ("Deduplicate", "DeduplicateWithinWatermark")

_NARROW: Final[dict[int, tuple[type[DataType], ...]]] = {
    -6: (ShortType, IntegerType, LongType),
    5: (IntegerType, LongType),
    4: (LongType,),
    7: (DoubleType,),
}
"""A number of `java.sql.Types`, from TINYINT to INTEGER and REAL → Spark's types that do not
fit."""


def widening_refusal(
    places: Places, before: Sequence["Query"], plan: Callable[[], Sequence["Query"]]
) -> str | None:
    """Why a pipeline with the queries `before` cannot continue with the queries of `plan`, whose
    columns have wider types; None if it can. Raises SparkFailed, OSError."""
    try:
        after = {query.name: query for query in plan()}
    except WrongPipeline as e:
        return e.problems[0].message
    for query in before:
        wider = after[query.name]
        if list(_states(query.frame)) != list(_states(wider.frame)):
            return f"the state of a step of {query.name} contains it, and its types are fixed"
        said = _refused(places, query, wider)
        if said is not None:
            return said
    return None


def _refused(places: Places, before: "Query", after: "Query") -> str | None:
    """Why a sink cannot store the wider columns; None if it can. Covers only the reasons that
    `check_target` does not check."""
    sink = before.sink
    if sink is None:
        return None
    was_rows, rows = table_rows(sink, before.frame), table_rows(sink, after.frame)
    changed = dict(_changed(was_rows.schema, rows.schema))
    if isinstance(sink, ParquetSink):
        for name, (was, now) in changed.items():
            if isinstance(was, LongType) and _has_files(before.frame.sparkSession, places, sink):
                return (
                    f"{sink.parquet} has files in which {name} is BIGINT, and Spark cannot read"
                    f" them together with files of {now.simpleString().upper()}"
                )
    if isinstance(sink, JdbcSink) and changed:
        for column in _columns(before.frame.sparkSession, places, sink):
            _, now = changed.get(column.name.lower(), (None, None))
            if isinstance(now, _NARROW.get(column.number, ())):
                return (
                    f"the table's column {column.name} is {column.kind}, and cannot hold"
                    f" {now.simpleString().upper()}"
                )
    return None


def _changed(
    before: StructType, after: StructType, path: str = ""
) -> Iterator[tuple[str, tuple[DataType, DataType]]]:
    """The fields whose types differ, also inside structs, by name in lower case."""
    others = {field.name: field.dataType for field in after.fields}
    for field in before.fields:
        was, now, name = field.dataType, others.get(field.name), f"{path}{field.name}".lower()
        if isinstance(was, StructType) and isinstance(now, StructType):
            yield from _changed(was, now, f"{name}.")
        elif now is not None and was.simpleString() != now.simpleString():
            yield name, (was, now)


def _has_files(spark: "SparkSession", places: Places, sink: ParquetSink) -> bool:
    """Whether a sink has written files to its directory or URL. Raises Py4JError."""
    if scheme(sink.parquet) is None:
        return next(places.path(sink.parquet).rglob("*.parquet"), None) is not None
    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage] - Hadoop's file systems
    session: Any = spark._jsparkSession  # pyright: ignore[reportPrivateUsage]
    # Spark's own sink keeps a list of its files there.
    path = jvm.org.apache.hadoop.fs.Path(f"{spark_url(sink.parquet)}/_spark_metadata")
    return bool(path.getFileSystem(session.sessionState().newHadoopConf()).exists(path))


def _columns(spark: "SparkSession", places: Places, sink: JdbcSink) -> list[TableColumn]:
    """The columns of a database's table whose types are fixed; none if the table does not exist
    yet. Raises SparkFailed."""
    url = places.jdbc(sink.jdbc)
    if url.startswith("jdbc:sqlite:"):  # SQLite's columns hold values of any type
        return []
    with Database(spark, url, sink.options) as database:
        return list(database.columns_of(sink.table).values()) if database.exists(sink.table) else []


def _states(frame: "DataFrame") -> Iterator[str]:
    """The column types in the state of a stream's operators, as far as Spark's plan shows them."""
    session: Any = frame.sparkSession._jsparkSession  # pyright: ignore[reportPrivateUsage]
    java: Any = frame._jdf
    execution = java.queryExecution()
    # The optimizer removes unused columns.
    yield from _of_node(session.sessionState().optimizer().execute(execution.analyzed()))


def _of_node(node: Any) -> Iterator[str]:
    children = [node.children().apply(n) for n in range(node.children().size())]
    name = str(node.getClass().getSimpleName())
    if node.isStreaming():
        if name in _KEEPS_KEYS:
            keys = [node.keys().apply(n) for n in range(node.keys().size())]
            yield f"{name} {[key.dataType().catalogString() for key in keys]}"
        elif (
            name == "Aggregate"
            or "WithState" in name
            or (name == "Join" and all(child.isStreaming() for child in children))
        ):
            types = [each.schema().catalogString() for each in (node, *children)]
            yield f"{name} {types}"
    for child in children:
        yield from _of_node(child)
