"""Finds fields of JSON objects that have no column yet, and names that columns cannot have.

Column names in Spark, and in most tables and databases, must differ in more than upper and lower
case. So if two names differ only in case, the first one is a column, and an object with the other
one does not fit.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from pyspark.sql.types import StringType, StructField, StructType

from pk.spark.text.json_reader import Number, Unfit, json_text, load

_SHOWN_MAX: Final = 100_000
"""The longest text of new fields that an error message contains, in characters."""


_DEPTH_MAX: Final = 30
"""Objects and arrays that are nested more deeply than this are treated as text."""


class Names(NamedTuple):
    """The names of the existing columns."""

    exact: frozenset[str]
    folded: Mapping[str, str]
    """Name in lower case → name."""

    inner: "Mapping[str, Names]"
    """The names inside structs."""


def names_of(schema: StructType) -> Names:
    """The names of a schema's fields, also inside structs."""
    inner = {
        f.name: names_of(f.dataType) for f in schema.fields if isinstance(f.dataType, StructType)
    }
    return Names(frozenset(schema.names), {n.lower(): n for n in schema.names}, inner)


def new_fields(value: Mapping[str, Any], names: Names, path: str = "") -> dict[str, Any]:
    """The fields of an object that have no column and are neither null nor objects without fields.
    Raises Unfit for a name that cannot become a column."""
    found: dict[str, Any] = {}
    if not value.keys() <= names.exact:
        seen: dict[str, str] = {}
        for name, each in value.items():
            if name in names.exact or _is_nothing(each):
                continue
            small = name.lower()
            twin = names.folded.get(small) or seen.setdefault(small, name)
            if twin != name:
                said = f"the value has the field {path}{name}, which differs from {path}{twin}"
                raise Unfit(f"{said} in upper and lower case alone")
            if not name or not _is_text(name):
                raise Unfit(f"the value has a field whose name is {name!r}")
            found[name] = each
    for name, inner in names.inner.items():
        each = value.get(name)
        if isinstance(each, dict):
            more = new_fields(cast("dict[str, Any]", each), inner, f"{path}{name}.")
            if more:
                found[name] = more
    return found


def shown(found: Mapping[str, Any], names: Names) -> str:
    """New fields as JSON. If that is too long, it has no values except numbers."""
    text = json_text(found)
    return text if len(text) <= _SHOWN_MAX else json_text(_named(found, names))


def _named(found: Mapping[str, Any], names: Names) -> dict[str, Any]:
    return {
        name: _named(each, names.inner[name])
        if name in names.inner
        else (each if type(each) is Number and name in names.exact else None)
        for name, each in found.items()
    }


def as_text(found: Mapping[str, Any], names: Names) -> StructType:
    """String columns for new fields, which hold values of any type as JSON."""
    fields: list[StructField] = []
    for name, each in found.items():
        inner = names.inner.get(name)
        kind = StringType() if inner is None else as_text(cast("dict[str, Any]", each), inner)
        fields.append(StructField(name, kind))
    return StructType(fields)


def in_one_case(texts: Iterable[bytes]) -> Iterator[bytes]:
    """The JSON objects among texts, for inference by Spark. If names differ only in case, only the
    first one is kept; very deep values become text."""
    known: dict[str, Any] = {}
    for text in texts:
        try:
            yield json_text(_folded(load(text), known, 0)).encode(errors="replace")
        except Unfit:
            continue


def _folded(value: Any, known: dict[str, Any], depth: int) -> Any:
    if isinstance(value, list | dict) and depth > _DEPTH_MAX:
        return ""
    if isinstance(value, list):
        return [_folded(each, known, depth + 1) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for name, each in cast("dict[str, Any]", value).items():
        first, inner = known.setdefault(name.lower(), (name, {}))
        if first == name and name and _is_text(name):
            found[name] = _folded(each, inner, depth + 1)
    return found


def _is_nothing(value: Any) -> bool:
    if isinstance(value, dict):
        return all(
            isinstance(each, dict) and _is_nothing(each)
            for each in cast("dict[str, Any]", value).values()
        )
    return value is None


def _is_text(name: str) -> bool:
    """Whether a name has no unpaired surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
