"""Converts the statistics in a file's footer to those of Delta's log.

They are bounds: strings are truncated, and times are rounded to milliseconds, so the minimum may be
too small and the maximum too large, but never the reverse.
"""

import datetime as dt
import json
import math
from collections.abc import Collection, Iterator
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

_TEXT: Final = 32
_GREATEST: Final = "\U0010ffff"
_EXACT_DIGITS: Final = 15
"""The number of decimal digits that a JSON number holds exactly."""


def delta_statistics(metadata: Any, columns: Collection[str]) -> str:
    """The statistics of a file as Delta's JSON. `metadata` is pyarrow's FileMetaData; only
    `columns` are included."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for number, path in enumerate(_leaves(metadata.schema.to_arrow_schema())):
        if path is None or path[0] not in columns:
            continue
        groups = [metadata.row_group(n).column(number) for n in range(metadata.num_row_groups)]
        found = [group.statistics for group in groups]
        if not all(s is not None and s.has_null_count for s in found):
            continue
        _put(nulls, path, sum(s.null_count for s in found))
        known = [s for s in found if s.num_values]
        if not known or not all(s.has_min_max for s in known):
            continue
        try:
            low = _least(min(s.min for s in known))
            high = _upper(max(s.max for s in known))
        except (OverflowError, ValueError):  # a time that Python cannot represent
            continue
        if low is not None:
            _put(least, path, low)
        if high is not None:
            _put(greatest, path, high)
    return json.dumps(
        {
            "numRecords": metadata.num_rows,
            "minValues": least,
            "maxValues": greatest,
            "nullCount": nulls,
        }
    )


def _leaves(schema: pa.Schema) -> Iterator[tuple[str, ...] | None]:
    """The path of each column of a parquet file, in the order of the file; None for columns inside
    a list or a map."""
    for field in schema:
        yield from _below(field, ())


def _below(field: pa.Field, path: tuple[str, ...] | None) -> Iterator[tuple[str, ...] | None]:
    own = None if path is None else (*path, field.name)
    kind: Any = field.type
    if pa.types.is_map(kind):
        inside = [kind.key_field, kind.item_field]
    else:
        inside = [kind.field(number) for number in range(kind.num_fields)]
    if not inside:
        yield own
    for each in inside:
        yield from _below(each, own if pa.types.is_struct(kind) else None)


def _put(into: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value


def _least(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_TEXT]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return _plain(value, up=False)


def _upper(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _TEXT else value[:_TEXT] + _GREATEST
    if isinstance(value, float):
        return None  # NaN is greater than all numbers, but footers do not include it
    return _plain(value, up=True)


def _plain(value: Any, *, up: bool) -> Any:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, Decimal):
        return float(value) if len(value.as_tuple().digits) <= _EXACT_DIGITS else None
    if isinstance(value, dt.datetime):
        rest_us = value.microsecond % 1000
        value -= dt.timedelta(microseconds=rest_us)
        if up and rest_us:
            value += dt.timedelta(milliseconds=1)
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text if value.tzinfo is None else f"{text}Z"
    return value.isoformat() if isinstance(value, dt.date) else None
