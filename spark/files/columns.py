"""Converts Spark's columns to the columns of files."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def arrow_columns(columns: "StructType") -> "pa.Schema":
    """The Arrow schema for Spark's columns; each column may be null, as in the files that Spark
    writes. Raises PySparkTypeError for a type that Arrow lacks."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    nullable = StructType.fromJson(_nullable(columns.jsonValue()))
    return to_arrow_schema(nullable, timezone="UTC")


def _nullable(kind: Any) -> Any:
    if isinstance(kind, list):
        return [_nullable(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    found = {name: each if name == "metadata" else _nullable(each) for name, each in kind.items()}
    for name in ("nullable", "containsNull", "valueContainsNull"):
        if name in found:
            found[name] = True
    return found
