"""New and changed rows of a database's table as a stream.

Spark's JDBC source reads a table once. So the driver looks for changes itself: it asks for the rows
that are greater, in the columns `changes`, than the last that it has, and puts them into a
directory of a spool, from which Spark streams. The greatest values are in the same directory, which
gets its name in one step: a crash leaves either both or none.

It sees inserts and updates, as Kafka Connect's JDBC source does; it does not see deleted rows, nor
a row that a transaction commits later than one with greater values. A row that is updated twice
between two queries is seen once.
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
    """The spool of one source."""

    def __init__(self, spark: "SparkSession", places: Places, source: JdbcSource) -> None:
        self._spark = spark
        self._source = source
        self._url = places.jdbc(source.jdbc)
        self._dialect = source.jdbc.split(":")[1]
        self._spool = places.spool(source.name)

    def look(self) -> int:
        """Takes over new rows, and returns their number. Raises PySparkException, Py4JError,
        OSError."""
        from pyspark.sql import functions as f

        columns = self._source.changes
        number, last = self._last()
        query = f"SELECT * FROM {self._source.table} pk_rows"
        if last is not None:
            query += f" WHERE {later(self._dialect, columns, last)}"
        rows = self._spark.read.format("jdbc").options(**self._source.options)
        # Each action would ask the database again, and get another answer.
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
        """The number of the last directory, and the position in it."""
        names = [p.name for p in self._spool.iterdir() if p.name.isdecimal()]
        if not names:
            return 0, None
        newest = max(names)
        return int(newest), json.loads((self._spool / newest / _POSITION).read_text())


def later(dialect: str, columns: Sequence[str], last: Sequence[Sequence[str]]) -> str:
    """The condition for rows that come after the last, column by column."""
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
    if dialect == "sqlite":  # which keeps times as text or numbers
        return f"'{escaped}'"
    if kind in ("timestamp", "timestamp_ntz"):
        return f"TIMESTAMP '{escaped}'"
    if kind == "date":
        return f"DATE '{escaped}'"
    return f"'{escaped}'"
