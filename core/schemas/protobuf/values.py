"""Converts protobuf messages between bytes and JSON, in protobuf's own JSON mapping."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from pk.core.nearest import nearest
from pk.core.schemas.protobuf.descriptors import File
from pk.core.schemas.schema import UnfitValue


def _class_of(file: File, indexes: Iterable[int]) -> Any:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(file.message(indexes))


def parser(file: File, indexes: Iterable[int]) -> Callable[[bytes], Any]:
    """Return a function that reads payloads as messages of one type. It raises UnfitValue. Raises
    SchemaError."""
    from google.protobuf.message import DecodeError

    kind = _class_of(file, indexes)

    def read(payload: bytes) -> Any:
        try:
            return kind.FromString(payload)
        except DecodeError as e:
            raise UnfitValue(f"not protobuf of its schema: {e}") from None

    return read


def builder(file: File, indexes: Iterable[int]) -> Callable[[], Any]:
    """Return a function that creates empty messages of one type. Raises SchemaError."""
    return _class_of(file, indexes)


def message_to_json(message: Any) -> str:
    """Convert a message to text, in protobuf's JSON mapping."""
    from google.protobuf import json_format

    return json_format.MessageToJson(message, preserving_proto_field_name=True, indent=None)


def reader(file: File) -> Callable[[bytes, tuple[int, ...]], Any]:
    """Return a function that reads payloads, each with its message's position in the file. It
    raises UnfitValue, SchemaError."""
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError

    classes: dict[tuple[int, ...], Any] = {}

    def read(payload: bytes, indexes: tuple[int, ...]) -> Any:
        kind = classes.get(indexes)
        if kind is None:
            kind = classes[indexes] = _class_of(file, indexes)
        try:
            message = kind.FromString(payload)
        except DecodeError as e:
            raise UnfitValue(f"not protobuf of its schema: {e}") from None
        return json_format.MessageToDict(message, preserving_proto_field_name=True)

    return read


_WITHIN_FIELD: Final = re.compile(r"Failed to parse (\S+) field: (.*)", re.DOTALL)
_UNKNOWN_FIELD: Final = re.compile(
    r'Message type "(?:.*\.)?(.*?)" has no field named "(.*?)" at .*Fields[^\[]*\[(.*?)\]',
    re.DOTALL,
)
_REASONS: Final = (
    (re.compile(r"invalid literal for int\(\) with base 10: (.*)"), r"\1 is not a whole number"),
    (re.compile(r"expected string or bytes-like object.*"), "it must be a string"),
    (re.compile(r"repeated field .* must be in \[\] .*"), "it must be a list"),
)


def _mismatch(message_text: str) -> str:
    """Rewrite the library's message about a value that does not fit: one line with the field and
    the cause, without names of Python's types."""
    path: list[str] = []
    while (found := _WITHIN_FIELD.match(message_text)) is not None:
        path.append(found[1])
        message_text = found[2]
    unknown = _UNKNOWN_FIELD.match(message_text)
    if unknown is not None:
        message, name, known = unknown.groups()
        near = nearest(name, re.findall(r"'(.*?)'", known))
        hint = f" (did you mean {near[0]}?)" if near else ""
        cause = f"{message} has no field {name!r}{hint}"
    else:
        cause = message_text.partition("\n")[0].rstrip(".")
        for pattern, plain in _REASONS:
            cause = pattern.sub(plain, cause)
        cause = cause[:1].lower() + cause[1:]
    return ": ".join((*(["the field " + ".".join(path)] if path else []), cause))


def writer(file: File, indexes: tuple[int, ...]) -> Callable[[Any], bytes]:
    """Return a function that writes JSON values as messages. It raises UnfitValue."""
    from google.protobuf import json_format

    kind = _class_of(file, indexes)

    def write(value: Any) -> bytes:
        if not isinstance(value, dict):
            raise UnfitValue(f"a message must be an object, not {str(value)[:100]}")
        try:
            return json_format.ParseDict(cast(Any, value), kind()).SerializeToString(
                deterministic=True
            )
        except json_format.ParseError as e:
            raise UnfitValue(f"the value does not fit its schema: {_mismatch(str(e))}") from None

    return write
