"""Protobuf files, checked and resolved together with all their imports.

A schema is .proto text, or a base64 `FileDescriptorProto`, which some clients send. Protobuf's own
pool resolves names and rejects errors. Google's and Confluent's own files need no reference
(built_in.py).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from pk.core.schemas.protobuf.built_in import NAMES, built_in
from pk.core.schemas.protobuf.syntax import parse_text
from pk.core.schemas.schema import SchemaError, missing_library

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

FILE_NAME: Final = "default.proto"
"""The name of a schema's own file, since a registry does not store one."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/\r\n]+={0,2}\s*")


class File(Struct, frozen=True):
    """The file of a schema, with all names resolved."""

    descriptor: FileDescriptor
    proto: FileDescriptorProto
    """The file as a message, with the full names of types."""

    def message(self, indexes: Iterable[int]) -> Descriptor:
        """Return the message at a position in the file. Raises SchemaError."""
        found: Any = None
        messages: list[Any] = [
            self.descriptor.message_types_by_name[each.name] for each in self.proto.message_type
        ]
        for index in indexes:
            if index >= len(messages):
                raise SchemaError(f"the schema has no message at index {index}")
            found = messages[index]
            messages = list(found.nested_types)
        if found is None:
            raise SchemaError("the schema has no messages")
        return found

    def indexes_of(self, name: str | None) -> tuple[int, ...]:
        """Return the position of a message by its name, in full or without the package. Without a
        name, it is that of the first message. Raises SchemaError."""
        if name is None:
            self.message((0,))
            return (0,)
        package = self.proto.package
        wanted = name.removeprefix(".")
        wanted = wanted.removeprefix(f"{package}.") if package else wanted
        indexes: list[int] = []
        messages: list[Any] = list(self.proto.message_type)
        for part in wanted.split("."):
            index = next((i for i, each in enumerate(messages) if each.name == part), None)
            if index is None:
                raise SchemaError(f"the schema has no message {name}")
            indexes.append(index)
            messages = list(messages[index].nested_type)
        return tuple(indexes)


def load(text: str, dependencies: Iterable[tuple[str, str]] = ()) -> File:
    """Load the file from its text. `dependencies` are pairs of import name and text, dependencies
    first. Raises SchemaError."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
    except ImportError as e:
        raise missing_library(e) from None
    pool: Any = descriptor_pool.DescriptorPool()
    known: set[str] = set()
    for name, dependency in dependencies:
        if name not in known:
            _add(pool, read(dependency, name), known)
    own = read(text, FILE_NAME)
    if own.name in known:
        own.name = f"{FILE_NAME}.schema"
    _add(pool, own, known)
    descriptor = pool.FindFileByName(own.name)
    proto = descriptor_pb2.FileDescriptorProto()
    descriptor.CopyToProto(proto)
    return File(descriptor, proto)


def read(text: str, name: str) -> FileDescriptorProto:
    """Read the descriptor, named `name`, from .proto text or base64, without checking it. Raises
    SchemaError."""
    try:
        from google.protobuf import descriptor_pb2
        from google.protobuf.message import DecodeError
    except ImportError as e:
        raise missing_library(e) from None
    if _BASE64.fullmatch(text):
        try:
            found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
        except (binascii.Error, DecodeError):
            pass
        else:
            found.name = name
            found.ClearField("source_code_info")
            return found
    return parse_text(text, name)


def _add(pool: Any, file: FileDescriptorProto, known: set[str]) -> None:
    for each in file.dependency:
        if each in known:
            continue
        if each not in NAMES:
            raise SchemaError(f'import "{each}" cannot be resolved: add a reference with this name')
        _add(pool, built_in(each), known)
    try:
        pool.AddSerializedFile(file.SerializeToString())
    except (TypeError, ValueError) as e:
        text = str(e).partition("descriptor pool: ")[2] or str(e)
        raise SchemaError(text) from None
    known.add(file.name)
