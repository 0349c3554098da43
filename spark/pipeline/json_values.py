"""Makes a batch fail at a JSON value, and recognizes such failures.

A batch with fields that the schema lacks (pk.spark.text.new_fields) fails with NEW_FIELDS, so that
the driver can widen the schema and run the batch again. If the pipeline stops at values that do not
parse, a batch with such a value fails with BAD_RECORD.
"""

import base64
import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column

NEW_FIELDS: Final = "pk-new-fields"
BAD_RECORD: Final = "pk-bad-record"

_SAID: Final = re.compile(rf"{NEW_FIELDS}:(\w+):([A-Za-z0-9+/=\s]*):")
_BAD: Final = re.compile(rf"{BAD_RECORD}:(.*?):{BAD_RECORD}", re.DOTALL)


def raise_new_fields(source: str, found: "Column") -> "Column":
    """A column whose evaluation makes the batch fail, with a message that has the source and its
    new fields."""
    shown = f.base64(f.encode(found, "utf-8"))
    said = f.concat(f.lit(f"{NEW_FIELDS}:{source}:"), shown, f.lit(":"))
    return f.raise_error(said).cast("boolean")


def parse_new_fields(message: str) -> tuple[str, bytes] | None:
    """The source and the new fields, as a JSON object, in the message of a failed batch; None if it
    failed for another reason."""
    match = _SAID.search(message)
    return None if match is None else (match[1], base64.b64decode(match[2]))


def raise_bad_record(why: "Column") -> "Column":
    """A column whose evaluation makes the batch fail, because a record does not parse and on_error
    is "stop"."""
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


def parse_bad_record(message: str) -> str | None:
    """The record that does not parse and the reason, in the message of a failed batch; None if it
    failed for another reason."""
    match = _BAD.search(message)
    return None if match is None else match[1]
