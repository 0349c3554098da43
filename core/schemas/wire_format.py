"""Confluent's wire format, which identifies the schema of a record's bytes.

    magic 0, then the schema's id in 4 bytes, then the payload
    magic 1, then the schema's GUID in 16 bytes: in the record header `__key_schema_id` or
             `__value_schema_id`, or before the payload

With protobuf, the position of the message in its file follows the id or the GUID: the indexes of
the message and its enclosing messages, as zigzag varints after their count. The single byte 0
stands for the first message. The header may also contain only the id.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

KEY_SCHEMA_ID: Final = "__key_schema_id"
"""The header that identifies the schema of a record's key."""

VALUE_SCHEMA_ID: Final = "__value_schema_id"
"""The header that identifies the schema of a record's value."""

MAGIC_ID: Final = 0
MAGIC_GUID: Final = 1
INDEXES_MAX: Final = 100
"""The maximum nesting of messages, which is protobuf's own limit."""

_ID: Final = struct.Struct(">bI")


class WireFormatError(ValueError):
    """Bytes are not in Confluent's wire format."""


class SchemaId(Struct, frozen=True):
    """The identity of a schema in a record: an id in one registry, or a GUID."""

    id: int | None = None
    guid: str | None = None
    indexes: tuple[int, ...] = ()
    """For protobuf, the position of the message in its file, outermost first."""


def encode_id(schema_id: int, indexes: Iterable[int] | None = None) -> bytes:
    """Encode an id as the bytes before a payload. `indexes` are for protobuf only."""
    return _ID.pack(MAGIC_ID, schema_id) + (b"" if indexes is None else encode_indexes(indexes))


def encode_guid(guid: str, indexes: Iterable[int] | None = None) -> bytes:
    """Encode the value of the header that identifies a schema by its GUID. `indexes` are for
    protobuf only."""
    tail = b"" if indexes is None else encode_indexes(indexes)
    return bytes((MAGIC_GUID,)) + uuid.UUID(guid).bytes + tail


def decode(data: bytes | memoryview, *, protobuf: bool = False) -> tuple[SchemaId, int]:
    """Decode the schema's identity. Returns it and the start of the payload. Raises
    WireFormatError.

    `protobuf` says whether indexes follow. If the schema's language is unknown, read only the
    identity first.
    """
    if not len(data):
        raise WireFormatError("no bytes: even an empty payload follows a schema id")
    magic = data[0]
    if magic == MAGIC_ID:
        if len(data) < 5:
            raise WireFormatError(f"{len(data)} bytes are too few for a schema id")
        found, at = SchemaId(id=int.from_bytes(data[1:5], "big")), 5
    elif magic == MAGIC_GUID:
        if len(data) < 17:
            raise WireFormatError(f"{len(data)} bytes are too few for a schema GUID")
        found, at = SchemaId(guid=str(uuid.UUID(bytes=bytes(data[1:17])))), 17
    else:
        raise WireFormatError(
            f"the first byte is {magic}, not 0 or 1: this was not written with a schema id"
        )
    if protobuf:
        indexes, at = decode_indexes(data, at)
        found = SchemaId(found.id, found.guid, indexes)
    return found, at


def encode_indexes(indexes: Iterable[int]) -> bytes:
    """Encode the position of a protobuf message in its file."""
    path = tuple(indexes)
    if path == (0,):
        return b"\0"
    return b"".join(_varint(each) for each in (len(path), *path))


def decode_indexes(data: bytes | memoryview, at: int) -> tuple[tuple[int, ...], int]:
    """Decode the position of a protobuf message in its file. Returns it and the start of the
    payload.

    Raises WireFormatError.
    """
    count, at = _read_varint(data, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= INDEXES_MAX:
        raise WireFormatError(f"{count} message indexes: the limit is {INDEXES_MAX}")
    found: list[int] = []
    for _ in range(count):
        index, at = _read_varint(data, at)
        if index < 0:
            raise WireFormatError(f"message index {index} is negative")
        found.append(index)
    return tuple(found), at


def _varint(value: int) -> bytes:
    left, out = value << 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise WireFormatError("the bytes end inside the message indexes")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value >> 1 ^ -(value & 1), at
        shift += 7
        if shift > 35:
            raise WireFormatError("a message index is longer than 5 bytes")
