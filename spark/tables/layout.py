"""Parses the columns whose values name the directories of an export: `--partition-by date,country`.

Each is a column of the record (`topic`, `partition`), a part of its timestamp in UTC (`date`,
`hour`), a field of a JSON value or key (`country`, `address.city`), or NAME=EXPRESSION of Spark's
SQL over the record's columns. The directories are named as in Hive.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pk.spark.connect import functions_of
from pk.spark.errors import OptionError
from pk.spark.reasons import sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""The valid names of columns. Readers skip directories whose name begins with `_`."""

_HOUR_US: Final = 3_600_000_000
_BUILT_IN: Final = {
    # Computed from microseconds, so that it does not depend on the session's time zone.
    "date": f"date_from_unix_date(CAST(floor(unix_micros(timestamp) / {24 * _HOUR_US}) AS INT))",
    "hour": f"CAST(pmod(floor(unix_micros(timestamp) / {_HOUR_US}), 24) AS INT)",
    "topic": "topic",
    "partition": "partition",
}
_TAKEN: Final = ("key", "value", "offset", "timestamp", "timestamptype", "headers")
"""The record's columns that stay in the files; no partition column may have these names."""


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A column whose values name directories. `expression` is None for a field of a JSON value or
    key."""

    name: str
    expression: str | None
    field: str = ""


def parse_layout(texts: Sequence[str]) -> tuple[PartitionColumn, ...]:
    """Parse the columns in `texts`. Each text is a list separated by commas, or one
    NAME=EXPRESSION. Raises OptionError."""
    found: list[PartitionColumn] = []
    for text in texts:
        name, equals, expression = text.partition("=")
        if equals:
            found.append(PartitionColumn(name.strip(), expression.strip()))
            continue
        for word in (part.strip() for part in text.split(",")):
            expression = _BUILT_IN.get(word)
            found.append(PartitionColumn(word.rpartition(".")[2], expression, word))
    for at, column in enumerate(found):
        if not _NAME.fullmatch(column.name) or column.expression == "":
            raise OptionError(
                "--partition-by must be columns such as date,country or NAME=EXPRESSION, and a "
                f"name must begin with a letter: {column.name!r} does not fit"
            )
        own = column.expression == column.name
        if column.name.lower() in (*_TAKEN, "topic", "partition") and not own:
            raise OptionError(
                f"--partition-by cannot name a column {column.name}: a record has another one of "
                "this name"
            )
        if column.name.lower() in {other.name.lower() for other in found[:at]}:
            raise OptionError(f"--partition-by names {column.name} twice")
    return tuple(found)


def check_layout(columns: Sequence[PartitionColumn]) -> None:
    """Raise OptionError if the directories of a new export would mix the records of different
    days."""
    names = [column.name for column in columns if column.expression == _BUILT_IN.get(column.name)]
    if "hour" in names and "date" not in names:
        raise OptionError(
            "--partition-by hour is the hour of the day, so one directory would have records of "
            "all days; give date,hour, or HOUR=hour(timestamp) if that is meant"
        )


def with_columns(frame: "DataFrame", layout: Sequence[PartitionColumn]) -> "DataFrame":
    """Add the columns of `layout` to the records. Raises OptionError if a field does not exist or
    an expression is invalid."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import AtomicType

    functions = functions_of(frame)
    columns = {c.name: functions.expr(c.expression or _field(frame, c)) for c in layout}
    try:
        found = frame.withColumns(columns)
        types = {field.name: field.dataType for field in found.schema.fields}
    except PySparkException as e:
        raise OptionError(f"--partition-by: {sentence(e)}") from e
    for column in layout:
        if not isinstance(types[column.name], AtomicType):
            kind = types[column.name].simpleString()
            raise OptionError(f"--partition-by: {column.name} is a {kind}, not a single value")
    return found


def _field(frame: "DataFrame", column: PartitionColumn) -> str:
    """The expression for a field of the value, or else of the key. Raises OptionError."""
    from pyspark.sql.types import StructType

    words = column.field.split(".")
    types = {field.name: field.dataType for field in frame.schema.fields}
    objects = [name for name in ("value", "key") if isinstance(types[name], StructType)]
    if words[0] in objects:
        names, words = [words[0]], words[1:]
    else:
        names = objects
    for name in names:
        kind: Any = types[name]
        for word in words:
            kind = next((f.dataType for f in getattr(kind, "fields", ()) if f.name == word), None)
        if kind is not None and words:
            return ".".join((name, *(f"`{word}`" for word in words)))
    if not objects:
        raise OptionError(
            f"--partition-by: a record has no column {column.field}; fields need --value json"
        )
    raise OptionError(f"--partition-by: {' and '.join(names)} have no field {column.field}")


def values_of(folders: Sequence[str]) -> Mapping[str, str | None]:
    """Column → value, from the names of directories as in Hive; None for a null."""
    from urllib.parse import unquote

    found: dict[str, str | None] = {}
    for folder in folders:
        name, equals, value = folder.partition("=")
        if not equals:
            continue  # this is a directory of one batch
        found[unquote(name)] = None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
    return found
