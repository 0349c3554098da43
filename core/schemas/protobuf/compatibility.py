"""Checks by Confluent's rules whether records of an old protobuf schema can be read with a new one.

Fields are compared by number. Adding and removing optional fields, messages and enum constants is
safe in protobuf, and so is renaming. Unsafe changes are a different package, a removed message, a
different encoding of numbers, an added or removed required field, and fields that move into a oneof
in a way that could lose one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct, field

from pk.core.schemas.compatibility import Difference
from pk.core.schemas.protobuf.descriptors import File

_REQUIRED: Final = 2
_REPEATED: Final = 3
_MESSAGES: Final = frozenset({10, 11})
_WIRE: Final = {
    **dict.fromkeys((3, 4, 5, 8, 13, 14), "general number"),
    **dict.fromkeys((17, 18), "signed number"),
    **dict.fromkeys((9, 12), "string or bytes"),
    **dict.fromkeys((7, 15), "fixed32"),
    **dict.fromkeys((6, 16), "fixed64"),
    2: "float",
    1: "double",
}
"""The encoding of each type. Types with the same encoding may replace each other."""

_WORDS: Final = {
    "PACKAGE_CHANGED": "The package of the {new} schema is not that of the {old} schema",
    "MESSAGE_REMOVED": "The {new} schema is missing a message type at path '{path}' of the {old} schema",
    "FIELD_KIND_CHANGED": (
        "The type of a field at path '{path}' in the {new} schema does not match the {old} schema"
    ),
    "FIELD_SCALAR_KIND_CHANGED": "The kind of a field at path '{path}' in the {new} schema does not match its kind in the "
    "{old} schema",
    "FIELD_NAMED_TYPE_CHANGED": "The type of a field at path '{path}' in the {new} schema is another than in the {old} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label of a numeric field at path '{path}' in the {new} schema is another than in the "
    "{old} schema",
    "REQUIRED_FIELD_ADDED": "A required field at path '{path}' in the {new} schema is missing in the {old} schema",
    "REQUIRED_FIELD_REMOVED": "The {new} schema is missing a required field at path '{path}' of the {old} schema",
    "ONEOF_FIELD_REMOVED": "The {new} schema is missing a oneof field at path '{path}' of the {old} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Multiple fields in the oneof at path '{path}' in the {new} schema are outside a oneof in the "
    "{old} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field in the {old} schema is moved to a oneof at path '{path}' in the {new} schema that "
    "already existed",
}


class _Types(Struct):
    """All messages of a file and its imports, by their full names."""

    package: str
    messages: dict[str, Any] = field(default_factory=dict[str, Any])

    def local(self, name: str) -> str:
        """Return a type's name without the package of its file."""
        name = name.removeprefix(".")
        return name.removeprefix(f"{self.package}.") if self.package else name


def _types_of(file: File) -> _Types:
    types = _Types(file.proto.package)

    def add(prefix: str, message: Any) -> None:
        name = f"{prefix}.{message.name}"
        types.messages[name] = message
        for each in message.nested_type:
            add(name, each)

    def files(descriptor: Any, seen: set[str]) -> Iterator[Any]:
        if descriptor.name not in seen:
            seen.add(descriptor.name)
            for each in descriptor.dependencies:
                yield from files(each, seen)
            proto = type(file.proto)()
            descriptor.CopyToProto(proto)
            yield proto

    for proto in files(file.descriptor, set()):
        for message in proto.message_type:
            add(f".{proto.package}" if proto.package else "", message)
    return types


def differences(new: File, old: File) -> list[Difference]:
    """Compare two schemas. Returns the reasons why records of the old one cannot be read with the
    new one, if any."""
    comparison = _Comparison(_types_of(old), _types_of(new))
    if old.proto.package != new.proto.package:
        comparison.add("PACKAGE_CHANGED", "#/")
    comparison.messages(old.proto.message_type, new.proto.message_type, "#/")
    return comparison.found


class _Comparison:
    def __init__(self, old: _Types, new: _Types) -> None:
        self.found: list[Difference] = []
        self._old = old
        self._new = new
        self._seen: set[tuple[int, int]] = set()

    def add(self, kind: str, path: str) -> None:
        self.found.append(Difference(kind, path, _WORDS[kind]))

    def messages(self, old: Any, new: Any, path: str) -> None:
        """Compare the messages at one level, by name."""
        by_name = {each.name: each for each in new}
        for each in old:
            if each.options.map_entry:
                continue
            other = by_name.get(each.name)
            if other is None or other.options.map_entry:
                self.add("MESSAGE_REMOVED", f"{path}{each.name}")
            else:
                self.message(each, other, f"{path}{each.name}")

    def message(self, old: Any, new: Any, path: str) -> None:
        """Compare two messages, and the messages nested in them."""
        pair = id(old), id(new)
        if pair in self._seen:
            return
        self._seen.add(pair)
        before = {each.number: each for each in old.field}
        after = {each.number: each for each in new.field}
        self._oneofs(old, new, before, after, path)
        for number in sorted(before.keys() | after.keys()):
            was, now, where = before.get(number), after.get(number), f"{path}/{number}"
            if was is not None and now is not None:
                self._field(was, now, where)
            elif was is not None and was.label == _REQUIRED:
                self.add("REQUIRED_FIELD_REMOVED", where)
            elif now is not None and now.label == _REQUIRED:
                self.add("REQUIRED_FIELD_ADDED", where)
        self.messages(old.nested_type, new.nested_type, f"{path}/")

    def _oneofs(
        self, old: Any, new: Any, before: dict[int, Any], after: dict[int, Any], path: str
    ) -> None:
        was = {number: _oneof(old, each) for number, each in before.items()}
        now = {number: _oneof(new, each) for number, each in after.items()}
        for name in dict.fromkeys(each for each in now.values() if each is not None):
            members = [number for number, inside in now.items() if inside == name]
            moved = [n for n in members if n in before and was[n] is None]
            existing = [n for n in members if n in before and was[n] is not None]
            if len(moved) > 1:
                self.add("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{name}")
            elif moved and existing:
                self.add("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{name}")
        kept = {each for each in now.values() if each is not None}
        for number, name in was.items():
            if name in kept and now.get(number) != name:
                self.add("ONEOF_FIELD_REMOVED", f"{path}/{name}/{number}")

    def _field(self, old: Any, new: Any, path: str) -> None:
        was, now = self._entry(old, self._old), self._entry(new, self._new)
        if was is not None and now is not None:
            for one, other in zip(was.field, now.field, strict=True):
                self._type(one, other, path)
        elif was is not None or now is not None:
            self.add("FIELD_KIND_CHANGED", path)
        else:
            before = len(self.found)
            self._type(old, new, path)
            repeated = (old.label == _REPEATED) != (new.label == _REPEATED)
            numeric = old.type not in _MESSAGES and _WIRE[old.type] != "string or bytes"
            if repeated and numeric and len(self.found) == before:
                self.add("FIELD_NUMERIC_LABEL_CHANGED", path)

    def _entry(self, given: Any, types: _Types) -> Any:
        """Return the entry message of a map field; None for any other field."""
        if given.type not in _MESSAGES:
            return None
        found = types.messages.get(given.type_name)
        return found if found is not None and found.options.map_entry else None

    def _type(self, old: Any, new: Any, path: str) -> None:
        if (old.type in _MESSAGES) != (new.type in _MESSAGES):
            self.add("FIELD_KIND_CHANGED", path)
        elif old.type not in _MESSAGES:
            if _WIRE[old.type] != _WIRE[new.type]:
                self.add("FIELD_SCALAR_KIND_CHANGED", path)
        elif self._local_name(old.type_name, self._old) != self._local_name(
            new.type_name, self._new
        ):
            self.add("FIELD_NAMED_TYPE_CHANGED", path)
        else:
            was, now = self._old.messages.get(old.type_name), self._new.messages.get(new.type_name)
            if was is not None and now is not None:
                before = len(self.found)
                self.message(was, now, path)
                if len(self.found) > before:
                    self.add("FIELD_NAMED_TYPE_CHANGED", path)

    @staticmethod
    def _local_name(name: str, types: _Types) -> str:
        return types.local(name)


def _oneof(message: Any, given: Any) -> str | None:
    if not given.HasField("oneof_index") or given.proto3_optional:
        return None
    return message.oneof_decl[given.oneof_index].name
