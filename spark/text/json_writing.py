"""How columns become JSON, and keys and values of records, with Spark's functions."""

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
"""Options of `to_json`: times keep their microseconds. By default it writes milliseconds."""


def as_json(column: "Column | str") -> "Column":
    """A column with fields or elements, as JSON; null fields are left out."""
    return f.to_json(column, dict(MICROSECONDS))


def as_bytes(column: "Column", kind: DataType) -> "Column":
    """A column as bytes: one with fields or elements as JSON, any other as its text."""
    if isinstance(kind, BinaryType):
        return column
    if isinstance(kind, StructType | MapType | ArrayType):
        return f.encode(as_json(column), "utf-8")
    return f.encode(column.cast("string"), "utf-8")
