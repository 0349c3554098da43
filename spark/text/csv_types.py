"""Converts CSV fields to other types than strings, or explains why a field does not fit."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from pk.spark.errors import OptionError
from pk.spark.text.csv_reader import BadCsv, FirstRow, Rows
from pk.spark.text.json_reader import Convert, Number, Unfit, convert_of

_WHOLE: Final = re.compile(r"[+-]?\d{1,40}")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?")
_BOOLEANS: Final = {"true": True, "false": False}


class CsvColumns:
    """A converter of rows to typed columns."""

    def __init__(self, columns: t.StructType, zone: str) -> None:
        """`zone` is the time zone of times that name none. Raises OptionError for a type that CSV
        lacks."""
        self.names = columns.names
        self._types = [to_arrow_type(each.dataType, timezone="UTC") for each in columns.fields]
        self.schema = pa.schema(list(zip(self.names, self._types, strict=True)))
        self._converts = [_convert(each.dataType, zone) for each in columns.fields]

    def batch(self, rows: Rows, same: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
        """Convert rows to typed columns, followed by columns with the `same` value in all rows.
        Raises BadCsv for a field that does not fit its column."""
        made: list[pa.Array] = []
        for name, values, convert, type_ in zip(
            self.names, rows.columns, self._converts, self._types, strict=True
        ):
            if convert is None:
                made.append(values)
                continue
            found: list[Any] = []
            for row, value in enumerate(values.to_pylist()):
                try:
                    found.append(None if value is None else convert(value))
                except Unfit as e:
                    raise BadCsv(rows.line(row), f"{name}{e}") from None
            made.append(pa.array(found, type_))
        made += [pa.repeat(value, len(made[0])) for value in same.values()]
        return pa.RecordBatch.from_arrays(made, [*self.names, *same])


def _convert(kind: t.DataType, zone: str) -> Convert | None:
    match kind:
        case t.StringType():
            return None
        case t.StructType() | t.ArrayType() | t.MapType() | t.BinaryType():
            raise OptionError(f"CSV has no type {kind.simpleString().upper()}")
    of_json = convert_of(kind, zone)
    return lambda text: of_json(_as_json(text, kind))


def _as_json(text: str, kind: t.DataType) -> Any:
    match kind:
        case t.BooleanType():
            return _BOOLEANS.get(text.lower(), text)
        case t.DecimalType() | t.FloatType() | t.DoubleType():
            return Number(text) if _NUMBER.fullmatch(text) else text
        case t.IntegralType():
            return int(text) if _WHOLE.fullmatch(text) else text
        case _:
            return text


def checked_columns(
    file: str, first: FirstRow, columns: t.StructType, *, header: bool
) -> t.StructType:
    """The columns of a file with this first row: `columns`, or if they are empty, string columns
    named by the row. Raises OptionError for a header with other names."""
    names = first.fields if header else [None] * len(first.fields)
    where = f"{file}, line {first.lines}"
    try:
        found = name_columns(names)
    except ValueError as e:
        raise OptionError(f"{where}: {e}") from None
    if not columns.fields:
        return t.StructType([t.StructField(name, t.StringType()) for name in found])
    if header and found != columns.names:
        raise OptionError(
            f"{where}: the columns are {', '.join(found)}, and must be {', '.join(columns.names)}; "
            "a file without a header needs header=false"
        )
    return columns


def name_columns(names: Sequence[str | None]) -> list[str]:
    """The names in a header; an empty name is replaced by `_c` and its number. Raises ValueError
    for names that differ at most in case, since Spark's SQL ignores case."""
    found = [name or f"_c{number}" for number, name in enumerate(names)]
    seen: dict[str, str] = {}
    for name in found:
        before = seen.setdefault(name.lower(), name)
        if before is not name:
            raise ValueError(f"the first row names a column twice: {before}, {name}")
    return found
