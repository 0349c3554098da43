"""Requests with a given number of elements, of every kind that a broker serves.

They are generated from the schema. For each array in a request, one request has this array full,
and a single element in every other array. The names are realistic: one existing topic with many
partitions, or many topics, groups, ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import pack
from typing import Any

from pk.core.api.index import APIS
from pk.core.wire.emit import fields_of
from pk.core.wire.index import MESSAGES
from pk.core.wire.schema import Array, Kind, Request, Struct
from pk.core.wire.types import UUID, Variable

Path = tuple[str, ...]
"""Names of fields from the request down to an array."""


@dataclass(frozen=True, slots=True)
class Large:
    """One request, and the array in it that is full."""

    request: Any
    version: int
    path: Path

    @property
    def name(self) -> str:
        return f"{type(self.request).__name__.removesuffix('Request')} {'.'.join(self.path)}"


@dataclass(frozen=True, slots=True)
class Names:
    """The names that exist on the broker."""

    topic: str
    topic_id: bytes
    partitions: int
    group: str


def kinds(skipped: frozenset[int] = frozenset()) -> list[tuple[type[Request[Any]], int, Path]]:
    """(request, latest version served, path of an array) for every array of every request that
    brokers serve."""
    return [
        (MESSAGES[api.key].request, api.versions[1], path)
        for api in APIS
        if api.key not in skipped
        for path in _arrays(MESSAGES[api.key].request, api.versions[1])
    ]


def large(cls: type[Request[Any]], version: int, path: Path, elements: int, names: Names) -> Large:
    """A request whose array at `path` has `elements`."""
    return Large(_Maker(version, path, elements, names).make(cls, (), 0), version, path)


def _arrays(cls: type[Struct], version: int, above: Path = ()) -> Iterator[Path]:
    for name, kind, f in fields_of(cls):
        if not f.within(version):
            continue
        here = (*above, name)
        if isinstance(kind, Array):
            yield here
            if isinstance(kind.element, type):
                yield from _arrays(kind.element, version, here)
        elif isinstance(kind, type):
            yield from _arrays(kind, version, here)


class _Maker:
    def __init__(self, version: int, path: Path, elements: int, names: Names) -> None:
        self._version = version
        self._path = path
        self._elements = elements
        self._names = names

    def make(self, cls: type[Struct], above: Path, number: int) -> Any:
        made = cls()
        for name, kind, f in fields_of(cls):
            if f.within(self._version):
                value = self._value(kind, (*above, name), number, getattr(made, name))
                setattr(made, name, value)
        return made

    def _value(self, kind: Kind, path: Path, number: int, default: Any) -> Any:
        name = path[-1]
        if isinstance(kind, Array):
            count = self._elements if path == self._path else 1
            return [self._value(kind.element, path, i, None) for i in range(count)]
        if isinstance(kind, type):
            return self.make(kind, path, number)
        of_many = path[: len(self._path)] == self._path
        if kind == UUID:
            named_many = of_many and self._path[-1].endswith(("topics", "topic_data"))
            return pack(">QQ", 77, number) if named_many else self._names.topic_id
        if isinstance(kind, Variable):
            text = self._text(path, number, default, of_many=of_many)
            return text if kind.name == "string" else default or b""
        if name in ("partition", "partitions", "partition_index", "partition_indexes"):
            return number % self._names.partitions
        return self._number(name, default)

    def _number(self, name: str, default: Any) -> Any:
        """The value of a field that does not name an element."""
        if name == "validate_only":
            return True
        if name == "acks":
            return 1  # without one there is no answer, and an error closes the connection
        return 1 if default is None else default

    def _text(self, path: Path, number: int, default: Any, *, of_many: bool) -> Any:
        """A name. If it is not one of many, it exists."""
        name, owner = path[-1], path[-2] if len(path) > 1 else ""
        if name in ("group_instance_id", "subscribed_topic_regex"):
            return None
        if "group" in name or path == ("groups",):
            return f"{self._names.group}{number}" if of_many else self._names.group
        if "topic" in name or name == "resource_name" or (name == "name" and "topic" in owner):
            return f"topic{number}" if of_many else self._names.topic
        return f"name{number}" if of_many and not default else default or ""


def name_of(kind: tuple[type[Request[Any]], int, Path]) -> str:
    """The names of the request and the array, for users."""
    return f"{kind[0].__name__.removesuffix('Request')} {'.'.join(kind[2])}"
