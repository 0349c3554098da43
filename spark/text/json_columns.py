"""A column of JSON texts as a struct, beside the reason why a text does not fit."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructType

from pk.spark.connect import struct_of
from pk.spark.text.json_reader import TOO_DEEP, JsonReader, Unfit, fields_of, load_all
from pk.spark.text.new_fields import Names, names_of, new_fields, shown

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

VALUE: Final = "value"
ERROR: Final = "error"
NEW: Final = "new"


def json_parser(
    spark: "SparkSession", fields: StructType | str, *, evolves: bool = False
) -> "Callable[[Column | str], Column]":
    """What makes of a column of bytes a struct: `value`, the JSON as a struct of `fields`, and
    `error`, why it is none. Both are null where the bytes are. If the fields evolve, there is also
    `new`, those that have no column yet as JSON, and a name that cannot become one is an error.

    Raises OptionError for a type that JSON lacks, PySparkException for DDL that is wrong.
    """
    schema = struct_of(spark, fields) if isinstance(fields, str) else fields
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    names = names_of(schema) if evolves else None
    JsonReader(fields_of(schema), zone)

    def parse(texts: pa.Array) -> pa.Array:
        return read_column(texts.to_pylist(), schema, zone, names)

    made = StructType().add(VALUE, schema).add(ERROR, StringType()).add(NEW, StringType())
    # Spark would parse once for a filter by `error` and once more for `value`, if it might.
    arrow_udf: Any = f.arrow_udf
    return arrow_udf(parse, made).asNondeterministic()


def read_column(
    texts: Sequence[bytes | None], schema: StructType, zone: str, names: Names | None
) -> pa.Array:
    """The column that `json_parser` makes of texts; `names` are those of fields that evolve."""
    reader = JsonReader(fields_of(schema), zone)
    objects, reasons = load_all(texts)
    columns = reader.columns(objects, reasons)
    new = _new_fields(objects, reasons, names)
    absent = [t is None or reason is not None for t, reason in zip(texts, reasons, strict=True)]
    whole = pa.StructArray.from_arrays(
        columns, fields=list(reader.schema), mask=pa.array(absent, pa.bool_())
    )
    told = [pa.array(map(_whole, each), pa.string()) for each in (reasons, new)]
    return pa.StructArray.from_arrays([whole, *told], [VALUE, ERROR, NEW])


def _whole(text: str | None) -> str | None:
    """A text in which half a character, which JSON may have, is shown as it is written there."""
    return None if text is None else text.encode(errors="backslashreplace").decode()


def _new_fields(
    objects: Sequence[Mapping[str, Any]], reasons: list[str | None], names: Names | None
) -> list[str | None]:
    """Each row's fields without a column; adds to `reasons` why a name cannot become one."""
    found: list[str | None] = [None] * len(objects)
    if names is None:
        return found
    for number, value in enumerate(objects):
        if reasons[number] is None:
            try:
                new = new_fields(value, names)
                found[number] = shown(new, names) if new else None
            except (Unfit, RecursionError) as e:
                reasons[number] = str(e) if isinstance(e, Unfit) else TOO_DEEP
    return found
