"""Reads the new and changed rows of a database's table as a stream.

Spark's JDBC source reads a table once. So the driver queries for changes itself: it selects the
rows whose values in the columns `changes` are greater than those of the last row that it has, and
writes them to a new directory in a spool, which Spark reads as a stream. The same directory
contains the greatest values, and it is renamed atomically: a crash leaves either both or neither.

Like Kafka Connect's JDBC source, this detects inserts and updates, but not deleted rows, nor a row
that is committed after a row with greater values was read. A row that is updated twice between two
queries is read once.
"""

import json
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pk.spark.pipeline.definition import JdbcSource
from pk.spark.pipeline.places import Places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_POSITION: Final = "_pk_position.json"
"""Spark skips names that begin with `_`."""


class Changes:
    """The spool of one JDBC source."""

    def __init__(self, spark: "SparkSession", places: Places, source: JdbcSource) -> None:
        self._spark = spark
        self._source = source
        self._url = places.jdbc(source.jdbc)
        self._dialect = source.jdbc.split(":")[1]
        self._spool = places.spool(source.name)

    def look(self) -> int:
        """Query for new rows, write them to the spool, and return their number. Raises
        PySparkException, Py4JError, OSError."""
        from pyspark.sql import functions as f

        columns = self._source.changes
        number, last = self._last()
        query = f"SELECT * FROM {self._source.table} pk_rows"
        if last is not None:
            query += f" WHERE {later(self._dialect, columns, last)}"
        rows = self._spark.read.format("jdbc").options(**self._source.options)
        # Without the cache each action would query the database again, with another result.
        found = rows.option("url", self._url).option("query", query).load().cache()
        try:
            count = found.count()
            if not count:
                return 0
            greatest = found.select(f.max(f.struct(*columns)).alias("last"))
            texts = greatest.select(
                *(f.col(f"last.{name}").cast("string").alias(name) for name in columns)
            ).collect()[0]
            kinds = {field.name: field.dataType.typeName() for field in found.schema.fields}
            staged = self._spool.parent / f".{self._source.name}"
            shutil.rmtree(staged, ignore_errors=True)
            found.coalesce(1).write.parquet(f"file://{staged}")
        finally:
            found.unpersist()
        position = [[texts[name], kinds[name]] for name in columns]
        (staged / _POSITION).write_text(json.dumps(position) + "\n")
        staged.rename(self._spool / f"{number + 1:010d}")
        return count

    def _last(self) -> tuple[int, Any]:
        """The number of the newest directory, and the greatest values in it."""
        names = [p.name for p in self._spool.iterdir() if p.name.isdecimal()]
        if not names:
            return 0, None
        newest = max(names)
        return int(newest), json.loads((self._spool / newest / _POSITION).read_text())


def later(dialect: str, columns: Sequence[str], last: Sequence[Sequence[str]]) -> str:
    """The SQL condition for rows that are later than the last one, comparing the columns in
    order."""
    terms: list[str] = []
    for index, name in enumerate(columns):
        same = [f"{columns[i]} = {_literal(dialect, *last[i])}" for i in range(index)]
        terms.append(" AND ".join([*same, f"{name} > {_literal(dialect, *last[index])}"]))
    return " OR ".join(f"({term})" for term in terms)


def _literal(dialect: str, text: str, kind: str) -> str:
    if kind in ("long", "integer", "short", "byte", "double", "float", "boolean") or (
        kind.startswith("decimal")
    ):
        return text
    escaped = text.replace("'", "''")
    if dialect == "sqlite":  # SQLite stores times as text or numbers
        return f"'{escaped}'"
    if kind in ("timestamp", "timestamp_ntz"):
        return f"TIMESTAMP '{escaped}'"
    if kind == "date":
        return f"DATE '{escaped}'"
    return f"'{escaped}'"
