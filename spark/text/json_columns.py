"""Parses a column of JSON texts into structs, with the reason why a text does not fit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructType

from pk.spark.connect import struct_of
from pk.spark.text.json_reader import TOO_DEEP, JsonReader, Unfit, fields_of, load_all
from pk.spark.text.new_fields import Names, names_of, new_fields, shown
from pk.spark.text.wider_numbers import Path, shown_path, wider_numbers, with_doubles

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

VALUE: Final = "value"
ERROR: Final = "error"
NEW: Final = "new"


@dataclass(frozen=True)
class JsonFields:
    """The fields of JSON objects, which may evolve."""

    schema: StructType
    stays: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """BIGINT fields that must not become DOUBLE, with the reasons."""


def json_parser(
    spark: "SparkSession", fields: JsonFields | StructType | str, *, evolves: bool = False
) -> "Callable[[Column | str], Column]":
    """Return a function that parses a column of bytes.

    The result is a struct with `value`, a struct of `fields`, and `error`, the reason why the bytes
    do not fit. Both are null if the bytes are null. If the fields evolve, the struct also has
    `new`: as JSON, the fields without a column, and those whose numbers do not fit their columns. A
    name that cannot be that of a column is an error.

    Raises OptionError for a type that JSON lacks, PySparkException for DDL that is wrong.
    """
    if isinstance(fields, str):
        fields = struct_of(spark, fields)
    known = fields if isinstance(fields, JsonFields) else JsonFields(fields)
    schema = known.schema
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    names = names_of(schema) if evolves else None
    JsonReader(fields_of(schema), zone)

    def parse(texts: pa.Array) -> pa.Array:
        return read_column(texts.to_pylist(), known, zone, names)

    made = StructType().add(VALUE, schema).add(ERROR, StringType()).add(NEW, StringType())
    # Nondeterministic, because otherwise Spark might parse twice: for a filter by `error`, and for
    # `value`.
    arrow_udf: Any = f.arrow_udf
    return arrow_udf(parse, made).asNondeterministic()


def read_column(
    texts: Sequence[bytes | None], known: JsonFields, zone: str, names: Names | None
) -> pa.Array:
    """Parse texts to the result of `json_parser`; `names` are the known names if the fields
    evolve."""
    reader = JsonReader(fields_of(known.schema), zone)
    objects, reasons = load_all(texts)
    columns = reader.columns(objects, reasons)
    new: list[str | None] = [None] * len(objects)
    if names is not None:
        for number, value in enumerate(objects):
            new[number], reasons[number] = _evolution(value, reasons[number], known, zone, names)
    absent = [t is None or reason is not None for t, reason in zip(texts, reasons, strict=True)]
    whole = pa.StructArray.from_arrays(
        columns, fields=list(reader.schema), mask=pa.array(absent, pa.bool_())
    )
    told = [pa.array(map(_whole, each), pa.string()) for each in (reasons, new)]
    return pa.StructArray.from_arrays([whole, *told], [VALUE, ERROR, NEW])


def _whole(text: str | None) -> str | None:
    """The text, with escapes for the unpaired surrogates that JSON may contain."""
    return None if text is None else text.encode(errors="backslashreplace").decode()


def _evolution(
    value: Mapping[str, Any], reason: str | None, known: JsonFields, zone: str, names: Names
) -> tuple[str | None, str | None]:
    """The fields of an object that require a change of the columns, as JSON, and the reason why the
    object does not fit even then; each may be None. `reason` is the reason why it does not fit the
    current columns."""
    try:
        wider = {} if reason is None else wider_numbers(value, known.schema)
        if wider:
            stays = [
                f"{shown_path(path)} {known.stays[path]}" for path in wider if path in known.stays
            ]
            if stays:
                return None, "; ".join((reason or "", *stays))
            reason = _misfit(value, with_doubles(known.schema, wider), zone)
        if reason is not None:
            return None, reason
        new = new_fields(value, names)
        for path, number in wider.items():
            _put(new, path, number)
        return (shown(new, names) if new else None), None
    except (Unfit, RecursionError) as e:
        return None, str(e) if isinstance(e, Unfit) else TOO_DEEP


def _misfit(value: Mapping[str, Any], schema: StructType, zone: str) -> str | None:
    reasons: list[str | None] = [None]
    JsonReader(fields_of(schema), zone).columns([value], reasons)
    return reasons[0]


def _put(fields: dict[str, Any], path: Path, value: Any) -> None:
    *outer, name = path
    for each in outer:
        fields = fields.setdefault(each, {})
    fields[name] = value
