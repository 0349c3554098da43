"""Infers the fields of JSON objects and their types from the objects.

Fields keep the order in which they first appear. A field whose values have several types has no
type: Spark would convert the values to text, and alter them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pyspark.sql import types as t

from pk.spark.errors import OptionError
from pk.spark.text.json_reader import Number, Unfit, load

_LONGS: Final = range(-(1 << 63), 1 << 63)
_SCALARS: Final[Mapping[str, t.DataType]] = {
    "boolean": t.BooleanType(),
    "long": t.LongType(),
    "double": t.DoubleType(),
    "string": t.StringType(),
    "null": t.StringType(),
}


@dataclass
class Found:
    """The types of the values at one position: `null`, a scalar, `object`, `array`, or `mixed`."""

    kind: str = "null"
    fields: "dict[str, Found]" = field(default_factory=dict[str, "Found"])
    element: "Found | None" = None

    def see(self, value: Any) -> None:
        """Add a value."""
        kind = _kind(value)
        if kind == "null":
            return
        self._become(kind)
        if kind == "object":
            for name, each in cast("dict[str, Any]", value).items():
                self.fields.setdefault(name, Found()).see(each)
        elif kind == "array":
            if self.element is None:
                self.element = Found()
            for each in cast("list[Any]", value):
                self.element.see(each)

    def merge(self, other: "Found") -> None:
        """Add all values of another `Found`."""
        if other.kind == "null":
            return
        self._become(other.kind)
        for name, each in other.fields.items():
            self.fields.setdefault(name, Found()).merge(each)
        if other.element is not None:
            if self.element is None:
                self.element = Found()
            self.element.merge(other.element)

    def _become(self, kind: str) -> None:
        if self.kind in ("null", kind):
            self.kind = kind
        elif {self.kind, kind} == {"long", "double"}:
            self.kind = "double"
        else:
            self.kind = "mixed"

    def has(self, path: tuple[str, ...]) -> bool:
        """Whether any object has a value, or a null, at a path."""
        if not path:
            return True
        return path[0] in self.fields and self.fields[path[0]].has(path[1:])

    def type(self, name: str) -> t.DataType:
        """The type of a column for these values; `name` is the column's name in errors. Raises
        OptionError."""
        if self.kind == "mixed":
            raise OptionError(
                f"{name} has values of several types: declare its type in a schema, or use an "
                "expression that is only its name, which gives its JSON"
            )
        if self.kind == "object":
            if not self.fields:
                raise OptionError(
                    f"{name} is an object without fields: declare its type in a schema"
                )
            return t.StructType(
                [
                    t.StructField(inner, each.type(f"{name}.{inner}"))
                    for inner, each in self.fields.items()
                ]
            )
        if self.kind == "array":
            assert self.element is not None
            return t.ArrayType(self.element.type(f"{name}[]"))
        return _SCALARS[self.kind]


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "long" if value in _LONGS else "mixed"
        case Number():
            return "double"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def infer(texts: Iterable[bytes]) -> Found:
    """Infer the fields of the objects among texts; other texts are ignored."""
    found = Found("object")
    for text in texts:
        try:
            found.see(load(text))
        except Unfit:
            continue
    return found
