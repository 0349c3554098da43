"""The columns of a source whose keys or values have schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import types as t

from pk.spark.errors import OptionError
from pk.spark.read.options import parse_options
from pk.spark.schemas.options import split_options
from pk.spark.schemas.reading import Reading


def reading_of(options: Mapping[str, str]) -> Reading:
    """The decoder for a source with these options. Raises OptionError."""
    rest, schemas = split_options(options)
    if schemas is None:
        raise OptionError("no column has a format")
    return Reading(schemas, _topics(rest))


def _topics(options: Mapping[str, str]) -> tuple[str, ...]:
    """The topics that the options name; empty for a pattern. Options that only streams have are
    ignored."""
    names = ("subscribe", "subscribepattern", "assign", "kafka.bootstrap.servers")
    parsed = parse_options({k: v for k, v in options.items() if k.lower() in names})
    return parsed.topics or tuple(dict.fromkeys(tp.topic for tp in parsed.assigned))


_RECORD: Final = (
    ("topic", t.StringType()),
    ("partition", t.IntegerType()),
    ("offset", t.LongType()),
    ("timestamp", t.TimestampType()),
    ("timestampType", t.IntegerType()),
)
_HEADERS: Final = t.ArrayType(
    t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
)


def typed(reading: Reading, *, headers: bool) -> t.StructType:
    """The columns of the source, with the types of the keys' and values' schemas. Raises
    OptionError, SchemaError, RegistryError, RegistryUnreachable."""
    columns = source_columns(reading.choose(), headers=headers)
    return t.StructType([*columns.fields, *reading.more_columns])


def source_columns(record: t.StructType, *, headers: bool = False) -> t.StructType:
    """The columns of the source, with `record` as the columns of key and value."""
    columns = [*record.fields, *(t.StructField(*each) for each in _RECORD)]
    if headers:
        columns.append(t.StructField("headers", _HEADERS))
    return t.StructType(columns)
