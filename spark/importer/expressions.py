"""Converts the rows of a source to records: the columns key, value, timestamp, headers and
partition, computed by expressions."""

from typing import TYPE_CHECKING, Final

from pk.spark.errors import OptionError
from pk.spark.importer.options import ImportOptions
from pk.spark.reasons import sentence
from pk.spark.text.json_writing import MICROSECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_TIMES: Final = ", ".join(f'"{name}", "{form}"' for name, form in MICROSECONDS.items())
_WHOLE_ROW: Final = f'to_json(struct(*), map("ignoreNullFields", "false", {_TIMES}))'


def records_of(rows: "DataFrame", options: ImportOptions) -> "DataFrame":
    """The records that the expressions make of a source's rows. Raises OptionError for an
    expression that Spark refuses."""
    columns: list[str] = []
    if options.key is not None:
        columns.append(f"{_bytes(rows, '--key', options.key)} AS key")
    value = _WHOLE_ROW if options.value is None else _bytes(rows, "--value", options.value)
    columns.append(f"{value} AS value")
    if options.timestamp is not None:
        columns.append(f"{_time(rows, options.timestamp)} AS timestamp")
    if options.partition is not None:
        _type_of(rows, "--partition", options.partition)
        columns.append(f"CAST({options.partition} AS INT) AS partition")
    if options.headers:
        structs = [
            (
                f"struct({_quoted(name)} AS key, CAST({_bytes(rows, '--header', text)} AS BINARY) "
                "AS value)"
            )
            for name, text in options.headers
        ]
        columns.append(f"array({', '.join(structs)}) AS headers")
    return rows.selectExpr(*columns)


def _type_of(rows: "DataFrame", option: str, text: str) -> "DataType":
    from pyspark.errors import PySparkException

    try:
        schema = rows.selectExpr(text).schema
    except PySparkException as e:
        said = f"{option} {text!r} is not an expression for these rows: {sentence(e)}"
        raise OptionError(said) from e
    if len(schema) != 1:
        raise OptionError(
            f"{option} {text!r} must be one expression, but gives {len(schema)} columns"
        )
    return schema[0].dataType


def _bytes(rows: "DataFrame", option: str, text: str) -> str:
    """An expression for a string or bytes: structs, maps and arrays as JSON, other types as their
    text."""
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

    kind = _type_of(rows, option, text)
    if isinstance(kind, (StringType, BinaryType)):
        return f"({text})"
    if isinstance(kind, (StructType, MapType, ArrayType)):
        return f"to_json({text}, map({_TIMES}))"
    return f"CAST({text} AS STRING)"


def _time(rows: "DataFrame", text: str) -> str:
    """An expression for a timestamp: a whole number counts milliseconds since 1970."""
    from pyspark.sql.types import IntegerType, LongType

    if isinstance(_type_of(rows, "--timestamp", text), (LongType, IntegerType)):
        return f"timestamp_millis({text})"
    return f"CAST({text} AS TIMESTAMP)"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
