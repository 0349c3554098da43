"""Counts JSON fields that an export has no column for, which would be dropped silently.

The columns come from a sample of the records or from earlier runs, and other records may have more
fields.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

NAMED_MAX: Final = 20
"""The largest number of fields that are named."""


class UnknownFields(NamedTuple):
    """The number of records with unknown fields, and the names of the first `NAMED_MAX` of these,
    such as `address.zip`."""

    records: int
    fields: tuple[str, ...]


class Fields(NamedTuple):
    """The fields of a struct column; those that are objects or arrays of objects have fields
    themselves."""

    names: frozenset[str]
    inner: Mapping[str, "Fields"]


def known_fields(data_type: Any) -> Fields | None:
    """The fields of a data type in Spark's JSON; None for a type without fields, which drops
    nothing."""
    if not isinstance(data_type, Mapping):
        return None
    if data_type["type"] == "array":
        return known_fields(data_type["elementType"])
    if data_type["type"] != "struct":
        return None
    kinds = {f["name"]: known_fields(f["type"]) for f in data_type["fields"]}
    return Fields(frozenset(kinds), {name: kind for name, kind in kinds.items() if kind})


@dataclass
class FieldCounter:
    """Counts the records of one column that have fields beyond `known`."""

    known: Fields
    records: int = 0
    names: set[str] = field(default_factory=set[str])

    def see(self, objects: Iterable[Mapping[str, object]]) -> None:
        """Count the objects that have unknown fields."""
        for value in objects:
            names: set[str] = set()
            _collect(self.known, value, "", names)
            if names:
                self.records += 1
                self.names |= names

    @property
    def found(self) -> UnknownFields:
        return UnknownFields(self.records, tuple(sorted(self.names)[:NAMED_MAX]))


def merged(parts: Sequence[UnknownFields]) -> UnknownFields:
    """Add up the counts of several tasks."""
    names = {name for part in parts for name in part.fields}
    return UnknownFields(sum(p.records for p in parts), tuple(sorted(names)[:NAMED_MAX]))


def _collect(known: Fields, value: object, path: str, names: set[str]) -> None:
    if isinstance(value, dict):
        if not value.keys() <= known.names:
            # A null has no value to lose.
            more = value.keys() - known.names
            names.update(f"{path}{name}" for name in more if value[name] is not None)
        for name, inner in known.inner.items():
            if name in value:
                _collect(inner, value[name], f"{path}{name}.", names)
    elif isinstance(value, list):
        for inner in value:
            _collect(known, inner, path, names)
