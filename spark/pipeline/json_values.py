"""How JSON values become columns: what parses, what does not and why, and which fields are new.

Spark's parser drops what it does not know and makes a null of what does not fit. A pipeline must do
neither silently. So each record gets, beside its parsed value, the reason why it does not parse;
and fields that the schema lacks fail the batch with NEW_FIELDS, so that the driver can widen the
schema and run the batch again.

All of it is SQL of Spark's own, evaluated in the JVM.
"""

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column

CORRUPT: Final = "_corrupt_record"
NEW_FIELDS: Final = "pk-new-fields"
BAD_RECORD: Final = "pk-bad-record"

_SAID: Final = re.compile(rf"{NEW_FIELDS}:(\w+):([A-Za-z0-9+/=\s]*):")
_BAD: Final = re.compile(rf"{BAD_RECORD}:(.*?):{BAD_RECORD}", re.DOTALL)
_SHOWN_MAX: Final = 200_000
"""The longest value that goes along in an error message, in characters."""


def parsed(text: "Column", schema: StructType) -> "Column":
    """The JSON in `text` as a struct; its field `_corrupt_record` is null if all of it parsed."""
    whole = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    return f.from_json(text, whole, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT})


def is_bad(text: "Column", value: "Column") -> "Column":
    """Whether a value does not parse. A null value is none that does not."""
    is_object = f.ltrim(text).startswith("{")
    return text.isNotNull() & (~is_object | value[CORRUPT].isNotNull())


def reason(text: "Column", value: "Column", schema: StructType) -> "Column":
    """Why a value does not parse."""
    wrong: list[Column] = []
    for field in schema.fields:
        given = f.get_json_object(text, _path(field.name))
        says = f"{field.name} is not {field.dataType.simpleString().upper()}: "
        message = f.concat(f.lit(says), f.substring(given, 1, 100))
        missing = value[field.name].isNull()
        if isinstance(field.dataType, StructType | ArrayType):
            # A part of it may be wrong, and the rest may have been kept.
            message = f.when(missing, message)
            wrong.append(f.when(given.isNotNull(), message))
        else:
            wrong.append(f.when(given.isNotNull() & missing, message))
    found = f.array_join(f.array_compact(f.array(*wrong)), "; ") if wrong else f.lit("")
    return (
        f.when(~f.ltrim(text).startswith("{"), f.lit("the value is not a JSON object"))
        .when(f.try_parse_json(text).isNull(), f.lit("the value is not JSON"))
        .when(found != "", found)
        .otherwise(f.lit("the value does not have the fields' types"))
    )


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
