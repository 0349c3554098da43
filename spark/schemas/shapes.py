"""A schema as Spark sees it: the type of its column, and the conversion of decoded values to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import DataType

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """A type of Spark, and the function that makes its values."""

    type: DataType
    convert: Convert | None = None
    """A decoded value → one that Arrow takes for the type; raises UnfitValue. None: it is one."""

    def converted(self, value: Any) -> Any:
        return value if self.convert is None or value is None else self.convert(value)


def many(convert: Convert | None) -> Convert | None:
    """The conversion of a list whose items need one."""
    if convert is None:
        return None
    return lambda values: [None if each is None else convert(each) for each in values]


def mapped(convert: Convert | None) -> Convert:
    """The conversion of a map with text for keys."""
    if convert is None:
        return lambda found: list(found.items())
    return lambda found: [(k, None if v is None else convert(v)) for k, v in found.items()]


def recorded(converts: dict[str, Convert]) -> Convert | None:
    """The conversion of a record of which some fields need one."""
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
