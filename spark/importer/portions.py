"""Divides the source of an import into portions that are the same in every run.

By default Spark divides files into partitions according to the number of cores. With the settings
here, each partition is one block of one file, and blocks begin at multiples of the block size. The
rows of a block come in the order of the file. So a file, a block and a number of rows identify the
rows exactly, in every run. A database has no such order; its portions are ranges of a unique
column.

Tables of Delta and Iceberg are lists of parquet files, which deltalake and pyiceberg read. Every
run of an import reads the version of the table that the first run read.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pk.spark.errors import OptionError
from pk.spark.importer.file_portions import MIXED_FILES, Portion, file_portions, partitions_of
from pk.spark.importer.options import TEXT, ImportOptions, ImportRefused
from pk.spark.importer.text_source import open_text
from pk.spark.reasons import NO_DRIVER, has_no_driver
from pk.spark.tables.lake import delta_table, iceberg_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS_A_PORTION: Final = 50_000
"""The approximate number of a database's rows that one task reads."""


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of an import, and the facts that later runs must reproduce."""

    frame: "DataFrame"
    facts: Mapping[str, Any]
    options: ImportOptions
    """The options, with their expressions in terms of the columns of `frame`."""

    ranges: tuple[tuple[int, int], ...] = ()
    """The ranges of keys of a database, one for each partition."""

    lines_before: Callable[[int], int] = lambda number: 0
    """The number of lines of its file that are before a portion, for tasks that count lines from
    the start of the portion."""


def open_source(
    spark: "SparkSession",
    options: ImportOptions,
    before: Mapping[str, Any] | None,
    done: Callable[[Portion], bool],
) -> Source:
    """Open the source. `before` has the facts of the first run; `done` returns whether earlier runs
    imported all of a portion. Raises OptionError, SparkFailed."""
    if options.kind == "jdbc":
        return _database(spark, options, before)
    for name in ("maxPartitionBytes", "openCostInBytes"):
        spark.conf.set(f"spark.sql.files.{name}", str(options.block_bytes))
    spark.conf.set("spark.sql.files.minPartitionNum", "1")
    facts: dict[str, Any] = dict(before or {})
    if options.kind in TEXT:
        text = open_text(spark, options, facts, done)
        return Source(text.frame, text.facts, text.options, lines_before=text.lines_before)
    reading: dict[str, Any] = dict(options.read)
    files: str | list[str] = options.place
    if options.kind in ("delta", "iceberg"):
        opened = delta_table if options.kind == "delta" else iceberg_table
        table = opened(options.place, facts.get("version"))
        facts |= {"version": table.version, "schema": table.schema}
        files = list(table.files)
        if options.kind == "delta":
            reading["basePath"] = options.place
        if not files:
            return Source(_empty(spark, facts), facts, options)
    from pyspark.sql.types import StructType

    reader = spark.read.format("parquet" if options.kind in ("delta", "iceberg") else options.kind)
    reader = reader.options(**reading)
    if "schema" in facts:
        reader = reader.schema(StructType.fromJson(json.loads(facts["schema"])))
    frame = reader.load(files)
    facts.setdefault("schema", frame.schema.json())
    return Source(frame, facts, options)


def _empty(spark: "SparkSession", facts: Mapping[str, Any]) -> "DataFrame":
    from pyspark.sql.types import StructType

    return spark.createDataFrame([], StructType.fromJson(json.loads(facts["schema"])))


def _database(
    spark: "SparkSession", options: ImportOptions, before: Mapping[str, Any] | None
) -> Source:
    """Read a table in ranges of its key. Later runs add ranges above those of earlier runs."""
    from pyspark.sql import functions

    table, column = options.table, options.order_by
    assert table is not None and column is not None
    facts: dict[str, Any] = dict(before or {})
    reader = spark.read.format("jdbc").options(**options.read).option("url", options.place)
    known = [(int(low), int(high)) for low, high in facts.get("ranges", ())]
    try:
        whole = reader.option("dbtable", table).load()
    except Exception as e:
        raise OptionError(f"{table} cannot be read: {_said(e)}") from e
    if column not in whole.columns:
        raise OptionError(f"{table} has no column {column}; it has {', '.join(whole.columns)}")
    [found] = whole.select(
        functions.min(column), functions.max(column), functions.count("*")
    ).collect()
    low, high, count = found
    if count and not (isinstance(low, int) and isinstance(high, int)):
        raise OptionError(f"the column {column} must contain only whole numbers, without nulls")
    if known:
        low = known[-1][1]
    if count and high >= low:
        step = max((high - low + 1) * KEYS_A_PORTION // count, 1)
        known += [(at, min(at + step, high + 1)) for at in range(low, high + 1, step)]
    facts["ranges"] = known
    if not known:
        facts["schema"] = whole.schema.json()
        return Source(_empty(spark, facts), facts, options)
    name = _quoted(spark, options.place, column)
    predicates = [f"{name} >= {low} AND {name} < {high}" for low, high in known]
    frame = spark.read.jdbc(
        options.place, table, predicates=predicates, properties=dict(options.read)
    )
    return Source(frame.sortWithinPartitions(column), facts, options, tuple(known))


def _said(error: Exception) -> str:
    """The error of the database's driver; if the driver is missing, how to name one."""
    if has_no_driver(error):
        return f"{NO_DRIVER}; give its JDBC driver's jar with --jars"
    text = str(error)
    lines = re.findall(r"(?:\w+\.)+\w*(?:Exception|Error): ([^\n]+)", text)
    return (lines[-1] if lines else text.partition("\n")[0]).strip()


def _quoted(spark: "SparkSession", url: str, column: str) -> str:
    """A column's name, quoted as the database's dialect in Spark quotes it."""
    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage] - the only way to Spark's dialects
    return str(jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(url).quoteIdentifier(column))


def portions_of(source: Source, frame: "DataFrame") -> list[Portion]:
    """The portion that each of Spark's partitions reads. `frame` is derived from the source's data
    frame. Raises SparkFailed, ImportRefused."""
    if not source.ranges:
        return file_portions(frame)
    if len(partitions_of(frame)) != len(source.ranges):
        raise ImportRefused(MIXED_FILES)
    return [
        Portion(f"keys {low} to {high}", "table", low, high - low, "")
        for low, high in source.ranges
    ]
