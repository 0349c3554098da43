"""Computes a batch's changes for a sink with mode = "upsert", by key.

A change replaces or deletes the table's row with the same key. If a batch has several changes of a
key, only the last one is applied: the one with the greatest values in the columns of `order_by`, by
default offset and partition. So a batch has at most one change of each key, and applying it twice
has the same result as applying it once.
"""

import operator
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, BooleanType, MapType, StructType

from pk.spark.pipeline.definition import KeyedSink, Pipeline, Sink
from pk.spark.reasons import sentence

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELETED: Final = "_pk_deleted"
"""The column that is true for changes that delete the row."""

_POSITION: Final = ("offset", "partition")
_NUMBER: Final = "_pk_number"
_COUNT: Final = "_pk_count"


def check_changes(pipeline: Pipeline, sink: KeyedSink, frame: "DataFrame") -> None:
    """Raise WrongPipeline if the rows lack a column that the sink names, or a column or the
    condition has a wrong type."""
    known = {name.lower() for name in frame.columns}
    for key in ("key", "order_by", "leave_out"):
        for name in getattr(sink, key):
            if name.lower() not in known:
                has = ", ".join(frame.columns)
                message = f"{sink.source} has no column {name!r}; it has {has}"
                raise pipeline.problem((*sink.path, key), message)
    for name in _named(frame, sink.key):
        if isinstance(frame.schema[name].dataType, StructType | ArrayType | MapType):
            message = f"{name} cannot be in a key: it is not a single value"
            raise pipeline.problem((*sink.path, "key"), message)
    if sink.delete is not None:
        try:
            kind = frame.select(f.expr(sink.delete)).schema.fields[0].dataType
        except PySparkException as e:
            raise pipeline.problem((*sink.path, "delete"), sentence(e)) from e
        if not isinstance(kind, BooleanType):
            message = f"delete must be a condition, such as \"op = 'd'\", not {sink.delete!r}"
            raise pipeline.problem((*sink.path, "delete"), message)


def table_rows(sink: Sink, frame: "DataFrame") -> "DataFrame":
    """The rows without the columns that are not written to the table."""
    if not isinstance(sink, KeyedSink):
        return frame
    return frame.drop(*_named(frame, sink.leave_out))


def marked(sink: Sink, frame: "DataFrame") -> "DataFrame":
    """The rows, with the column DELETED if the sink takes changes. A row without a key makes
    Spark's query fail."""
    if not isinstance(sink, KeyedSink) or sink.mode != "upsert":
        return frame
    lacking = [_column(name).isNull() for name in _named(frame, sink.key)]
    said = f.lit(f"a change has no key: {', '.join(sink.key)} must not be null")
    has_key = f.when(reduce(operator.or_, lacking), f.raise_error(said).cast("boolean"))
    deleted = f.lit(False) if sink.delete is None else f.coalesce(f.expr(sink.delete), f.lit(False))
    return frame.where(has_key.otherwise(f.lit(True))).withColumn(DELETED, deleted)


def changes(sink: KeyedSink, frame: "DataFrame") -> "DataFrame":
    """The last row of each key, with DELETED and the columns of the table. If a key has several
    changes and nothing orders them, Spark's query fails."""
    rows = marked(sink, frame)
    keys = [_column(name) for name in _named(frame, sink.key)]
    order = _order(sink, frame)
    window = Window.partitionBy(*keys)
    if order:
        number = f.row_number().over(window.orderBy(*order))
        rows = rows.withColumn(_NUMBER, number).where(f.col(_NUMBER) == 1).drop(_NUMBER)
    else:
        said = f.lit("a batch has two changes of a key, and order_by names no column to order them")
        fails = f.when(f.col(_COUNT) > 1, f.raise_error(said).cast("boolean"))
        rows = rows.withColumn(_COUNT, f.count(f.lit(1)).over(window))
        rows = rows.where(fails.otherwise(f.lit(True))).drop(_COUNT)
    return table_rows(sink, rows)


def key_names(sink: KeyedSink, frame: "DataFrame") -> list[str]:
    """The columns of the key, spelled as in the rows."""
    return _named(frame, sink.key)


def _order(sink: KeyedSink, frame: "DataFrame") -> "list[Column]":
    names = _named(frame, sink.order_by or _POSITION)
    return [_column(name).desc_nulls_last() for name in names]


def _column(name: str) -> "Column":
    return f.col(f"`{name.replace('`', '``')}`")


def _named(frame: "DataFrame", names: Sequence[str]) -> list[str]:
    """The columns, spelled as in the rows: Spark ignores case in names, but tables may not."""
    known = {name.lower(): name for name in frame.columns}
    return [known[name.lower()] for name in names if name.lower() in known]
