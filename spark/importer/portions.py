"""What an import reads, cut into portions that are the same in every run.

Spark cuts files into pieces by itself, by the number of cores if no setting says how:
with the settings here each of its partitions is one block of one file, and blocks begin at
multiples of the block's size. The rows of a block come in the order of the file. So a file, a block
and a number of rows say exactly which rows are meant, whatever ran before. A database has no such
order of its own; there a portion is a range of a column that is unique.

Tables of Delta and Iceberg are lists of parquet files, which deltalake and pyiceberg read. An
import reads the version of the table that its first run saw.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from pk.spark.errors import OptionError, SparkFailed
from pk.spark.importer.options import ImportOptions, ImportRefused
from pk.spark.tables.lake import delta_table, iceberg_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS_A_PORTION: Final = 50_000
"""About how many rows of a database one task reads."""

_DEFAULTS: Final[Mapping[str, Mapping[str, str]]] = {
    "csv": {"header": "true", "mode": "FAILFAST"},
    "json": {"mode": "FAILFAST"},
}


@dataclass(frozen=True, slots=True)
class Portion:
    """One of Spark's partitions: a block of a file, or a range of a table's keys."""

    name: str
    file: str
    bytes: int
    stamp: str
    """What the file is now: its size and time."""


@dataclass(frozen=True, slots=True)
class Source:
    """The rows, and what was found out about them that later runs must find again."""

    frame: "DataFrame"
    facts: Mapping[str, Any]
    ranges: tuple[tuple[int, int], ...] = ()
    """The ranges of keys of a database, one a partition."""


def open_source(
    spark: "SparkSession", options: ImportOptions, before: Mapping[str, Any] | None
) -> Source:
    """The rows of the source; `before` has the facts of the first run. Raises OptionError,
    SparkFailed."""
    if options.kind == "jdbc":
        return _database(spark, options, before)
    for name in ("maxPartitionBytes", "openCostInBytes"):
        spark.conf.set(f"spark.sql.files.{name}", str(options.block_bytes))
    spark.conf.set("spark.sql.files.minPartitionNum", "1")
    facts: dict[str, Any] = dict(before or {})
    reading: dict[str, Any] = {**_DEFAULTS.get(options.kind, {}), **options.read}
    files: str | list[str] = options.place
    if options.kind in ("delta", "iceberg"):
        opened = delta_table if options.kind == "delta" else iceberg_table
        table = opened(options.place, facts.get("version"))
        facts |= {"version": table.version, "schema": table.schema}
        files = list(table.files)
        if options.kind == "delta":
            reading["basePath"] = options.place
        if not files:
            return Source(_empty(spark, facts), facts)
    from pyspark.sql.types import StructType

    reader = spark.read.format("parquet" if options.kind in ("delta", "iceberg") else options.kind)
    reader = reader.options(**reading)
    if "schema" in facts:
        reader = reader.schema(StructType.fromJson(json.loads(facts["schema"])))
    elif options.schema is not None:
        reader = reader.schema(options.schema)
    frame = reader.load(files)
    facts.setdefault("schema", frame.schema.json())
    return Source(frame, facts)


def _empty(spark: "SparkSession", facts: Mapping[str, Any]) -> "DataFrame":
    from pyspark.sql.types import StructType

    return spark.createDataFrame([], StructType.fromJson(json.loads(facts["schema"])))


def _database(
    spark: "SparkSession", options: ImportOptions, before: Mapping[str, Any] | None
) -> Source:
    """A table in ranges of its key. Later runs add ranges above those of the runs before."""
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
        raise OptionError(f"the column {column} must hold whole numbers, and no null")
    if known:
        low = known[-1][1]
    if count and high >= low:
        step = max((high - low + 1) * KEYS_A_PORTION // count, 1)
        known += [(at, min(at + step, high + 1)) for at in range(low, high + 1, step)]
    facts["ranges"] = known
    if not known:
        facts["schema"] = whole.schema.json()
        return Source(_empty(spark, facts), facts)
    name = _quoted(spark, options.place, column)
    predicates = [f"{name} >= {low} AND {name} < {high}" for low, high in known]
    frame = spark.read.jdbc(
        options.place, table, predicates=predicates, properties=dict(options.read)
    )
    return Source(frame.sortWithinPartitions(column), facts, tuple(known))


def _said(error: Exception) -> str:
    """What a database's driver said; if there is no driver, how to name one."""
    text = str(error)
    if "No suitable driver" in text or "ClassNotFoundException" in text:
        return "no driver for this database; give its JDBC driver's jar by --jars"
    lines = re.findall(r"(?:\w+\.)+\w*(?:Exception|Error): ([^\n]+)", text)
    return (lines[-1] if lines else text.partition("\n")[0]).strip()


def _quoted(spark: "SparkSession", url: str, column: str) -> str:
    """A column's name as Spark quotes it for this database."""
    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage] - the only way to Spark's dialects
    return str(jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(url).quoteIdentifier(column))


def portions_of(source: Source, frame: "DataFrame") -> list[Portion]:
    """What each of Spark's partitions reads. `frame` has been made of the source's. Raises
    SparkFailed, ImportRefused."""
    java: Any = frame._jdf
    partitions = list(java.queryExecution().toRdd().partitions())
    if source.ranges:
        if len(partitions) != len(source.ranges):
            raise ImportRefused(_MIXES)
        return [
            Portion(f"keys {low} to {high}", "table", high - low, "") for low, high in source.ranges
        ]
    return [portion for partition in partitions for portion in _file_portion(partition)]


_MIXES: Final = (
    "an expression mixes rows of different files (a window or an aggregate): import its result "
    "from files"
)


def _file_portion(partition: Any) -> Iterable[Portion]:
    try:
        files: Sequence[Any] = list(partition.files())
    except Exception as e:
        if "FilePartition" in type(partition).__name__:
            raise
        if partition.getClass().getSimpleName() == "ParallelCollectionPartition":
            return []
        raise ImportRefused(_MIXES) from e
    if len(files) != 1:
        raise SparkFailed(f"Spark reads {len(files)} files in one task, where pk asked for one")
    file = files[0]
    name = _readable(str(file.urlEncodedPath()))
    start, length = int(file.start()), int(file.length())
    stamp = f"{file.fileSize()} bytes of {file.modificationTime()}"
    return [Portion(f"{name}@{start}", name, length, stamp)]


def _readable(url: str) -> str:
    path = unquote(url)
    return str(Path(path.removeprefix("file://"))) if path.startswith("file:///") else path
