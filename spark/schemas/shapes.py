"""The column for a schema: its type in Spark, and the conversion of decoded values to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import DataType

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """A type of Spark, and the conversion of values to it."""

    type: DataType
    convert: Convert | None = None
    """Converts a decoded value to one that Arrow accepts for the type; raises UnfitValue. None if
    no conversion is needed."""

    def converted(self, value: Any) -> Any:
        return value if self.convert is None or value is None else self.convert(value)


def many(convert: Convert | None) -> Convert | None:
    """The conversion of lists whose items need a conversion."""
    if convert is None:
        return None
    return lambda values: [None if each is None else convert(each) for each in values]


def mapped(convert: Convert | None) -> Convert:
    """The conversion of maps with strings as keys."""
    if convert is None:
        return lambda found: list(found.items())
    return lambda found: [(k, None if v is None else convert(v)) for k, v in found.items()]


def recorded(converts: dict[str, Convert]) -> Convert | None:
    """The conversion of records some of whose fields need a conversion."""
    if not converts:
        return None

    def convert(record: dict[str, Any]) -> dict[str, Any]:
        found = dict(record)
        for name, each in converts.items():
            value = found.get(name)
            if value is not None:
                found[name] = each(value)
        return found

    return convert
