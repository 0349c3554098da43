"""A column of JSON texts as a struct, beside the reason why a text does not fit."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructType

from pk.spark.connect import struct_of
from pk.spark.text.json_reader import JsonReader, fields_of

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

VALUE: Final = "value"
ERROR: Final = "error"


def json_parser(
    spark: "SparkSession", fields: StructType | str
) -> "Callable[[Column | str], Column]":
    """What makes of a column of bytes a struct: `value`, the JSON as a struct of `fields`, and
    `error`, why it is none. Both are null where the bytes are.

    Raises OptionError for a type that JSON lacks, PySparkException for DDL that is wrong.
    """
    schema = struct_of(spark, fields) if isinstance(fields, str) else fields
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    JsonReader(fields_of(schema), zone)

    def parse(texts: pa.Array) -> pa.Array:
        given = texts.to_pylist()
        reader = JsonReader(fields_of(schema), zone)
        columns, reasons = reader.read(given)
        absent = [
            text is None or reason is not None for text, reason in zip(given, reasons, strict=True)
        ]
        whole = pa.StructArray.from_arrays(
            columns, fields=list(reader.schema), mask=pa.array(absent, pa.bool_())
        )
        return pa.StructArray.from_arrays([whole, pa.array(reasons, pa.string())], [VALUE, ERROR])

    made = StructType().add(VALUE, schema).add(ERROR, StringType())
    # Spark would parse once for a filter by `error` and once more for `value`, if it might.
    arrow_udf: Any = f.arrow_udf
    return arrow_udf(parse, made).asNondeterministic()
