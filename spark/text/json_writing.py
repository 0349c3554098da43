"""Converts columns to JSON, and to keys and values of records, with Spark's functions."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column

MICROSECONDS: Final[Mapping[str, str]] = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of `to_json` with which times keep their microseconds. By default it writes
milliseconds."""


def as_json(column: "Column | str") -> "Column":
    """A struct, map or array column as JSON; null fields are omitted."""
    return f.to_json(column, dict(MICROSECONDS))


def as_bytes(column: "Column", kind: DataType) -> "Column":
    """A column as bytes: structs, maps and arrays as JSON, other types as their text."""
    if isinstance(kind, BinaryType):
        return column
    if isinstance(kind, StructType | MapType | ArrayType):
        return f.encode(as_json(column), "utf-8")
    return f.encode(column.cast("string"), "utf-8")
