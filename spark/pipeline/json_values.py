"""Fields of JSON values that a pipeline does not know yet, and how a batch says that it failed.

Fields that the schema lacks fail the batch with NEW_FIELDS, so that the driver can widen the schema
and run the batch again. A value that does not parse (pk.spark.text.json_columns) fails it with
BAD_RECORD, if the pipeline stops at such values.

All of it is SQL of Spark's own, evaluated in the JVM.
"""

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column

CORRUPT: Final = "_corrupt_record"
NEW_FIELDS: Final = "pk-new-fields"
BAD_RECORD: Final = "pk-bad-record"

_SAID: Final = re.compile(rf"{NEW_FIELDS}:(\w+):([A-Za-z0-9+/=\s]*):")
_BAD: Final = re.compile(rf"{BAD_RECORD}:(.*?):{BAD_RECORD}", re.DOTALL)
_SHOWN_MAX: Final = 200_000
"""The longest value that goes along in an error message, in characters."""


def new_fields(text: "Column", schema: StructType) -> "Column":
    """Whether a value is JSON with fields that the schema lacks and that are not null."""
    unknown = _unknown(text, schema)
    for field in schema.fields:
        if isinstance(field.dataType, StructType):
            inner = f.get_json_object(text, _path(field.name))
            unknown = unknown | _unknown(inner, field.dataType)
    return unknown & f.try_parse_json(text).isNotNull()


def _unknown(text: "Column", schema: StructType) -> "Column":
    known = f.array(*[f.lit(name) for name in schema.names]).cast("array<string>")
    keys = f.array_except(f.json_object_keys(text), known)
    # get_json_object needs a literal path, so the nulls are found by parsing such a record as a
    # map.
    values = f.from_json(text, "map<string,string>")
    found = f.exists(keys, lambda key: f.element_at(values, key).isNotNull())
    return f.coalesce((f.size(keys) > 0) & found, f.lit(False))


def _path(name: str) -> str:
    return f"$['{name}']"


def raise_new_fields(source: str, text: "Column") -> "Column":
    """Fails the batch, and says which source has new fields, with a value that has some."""
    shown = f.when(f.length(text) <= _SHOWN_MAX, f.base64(f.encode(text, "utf-8")))
    said = f.concat(f.lit(f"{NEW_FIELDS}:{source}:"), f.coalesce(shown, f.lit("")), f.lit(":"))
    return f.raise_error(said).cast("boolean")


def said_new_fields(message: str) -> tuple[str, bytes] | None:
    """The source and the value that a failed batch names; None if it failed for another reason."""
    match = _SAID.search(message)
    if match is None:
        return None
    try:
        return match[1], base64.b64decode(match[2])
    except (ValueError, binascii.Error):
        return match[1], b""


def raise_bad_record(why: "Column") -> "Column":
    """Fails the batch: a record does not parse, and on_error is stop."""
    place = f.concat(
        f.col("topic"),
        f.lit(", partition "),
        f.col("partition").cast("string"),
        f.lit(", offset "),
        f.col("offset").cast("string"),
    )
    mark = f.lit(BAD_RECORD)
    said = f.concat(mark, f.lit(":"), place, f.lit(": "), why, f.lit(":"), mark)
    return f.raise_error(said).cast("boolean")


def said_bad_record(message: str) -> str | None:
    """Which record does not parse and why; None if the batch failed for another reason."""
    match = _BAD.search(message)
    return None if match is None else match[1]


def widened(known: StructType, found: StructType) -> StructType:
    """`known` with the fields that only `found` has, also inside structs. The known types stay."""
    fields: list[StructField] = []
    others = {field.name: field for field in found.fields if field.name != CORRUPT}
    for field in known.fields:
        other = others.pop(field.name, None)
        if (
            other is not None
            and isinstance(field.dataType, StructType)
            and isinstance(other.dataType, StructType)
        ):
            inner = widened(field.dataType, other.dataType)
            field = StructField(field.name, inner, field.nullable)
        fields.append(field)
    return StructType([*fields, *others.values()])
