"""Converts records between Confluent's wire format and JSON, for schemas of all languages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from pk.core.schemas import wire_format
from pk.core.schemas.languages import parse
from pk.core.schemas.schema import AVRO, PROTOBUF, Resolved, UnfitValue
from pk.core.schemas.wire_format import SchemaId


class Decoder(Struct, frozen=True):
    """Reads data written with one schema."""

    type: str
    read: Callable[[bytes, tuple[int, ...]], Any]
    """(payload, position of the message in protobuf) → value. Raises UnfitValue, SchemaError."""


def decoder(schema: Resolved) -> Decoder:
    """Return the decoder of a schema. Raises SchemaError."""
    kind = schema.schema.type
    if kind == AVRO:
        from pk.core.schemas.avro.values import reader, to_json

        avro = reader(schema.text, schema.dependencies)
        return Decoder(kind, lambda payload, indexes: to_json(avro(payload)))
    if kind == PROTOBUF:
        from pk.core.schemas.protobuf.values import reader as protobuf_reader

        return Decoder(kind, protobuf_reader(parse(schema).model))
    return Decoder(kind, lambda payload, indexes: _json(payload))


def _json(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except ValueError as e:
        raise UnfitValue(f"not JSON: {e}") from None


class Deserializer:
    """Decodes records. It requests each schema only once."""

    def __init__(self, fetch_schema: Callable[[SchemaId], Resolved]) -> None:
        """`fetch_schema` returns the schema for an identity without indexes."""
        self._fetch_schema = fetch_schema
        self._known: dict[tuple[int | None, str | None], Decoder] = {}

    def decoder_of(self, wanted: SchemaId) -> Decoder:
        """Return the decoder for an identity."""
        key = wanted.id, wanted.guid
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = decoder(self._fetch_schema(SchemaId(*key)))
        return found

    def decode(self, data: bytes, header: bytes | None = None) -> Any:
        """Decode a record's key or value. `header` is the record header that identifies the schema,
        if there is one.

        Raises WireFormatError, UnfitValue, SchemaError, and the errors of `fetch_schema`.
        """
        framed = data if header is None else header
        wanted, at = wire_format.decode(framed)
        found = self.decoder_of(wanted)
        indexes: tuple[int, ...] = ()
        if found.type == PROTOBUF:
            indexes, at = wire_format.decode_indexes(framed, at)
        return found.read(data[at:] if header is None else data, indexes)


def encoder(schema: Resolved, schema_id: int, message: str | None = None) -> Callable[[Any], bytes]:
    """Return a function that encodes JSON values with a schema, framed. `message` is the name of
    the protobuf message (default: the first).

    Raises SchemaError. The function raises UnfitValue.
    """
    kind = schema.schema.type
    head = wire_format.encode_id(schema_id)
    if kind == AVRO:
        from pk.core.schemas.avro.values import writer

        write = writer(schema.text, schema.dependencies)
    elif kind == PROTOBUF:
        from pk.core.schemas.protobuf.values import writer as protobuf_writer

        file = parse(schema).model
        indexes = file.indexes_of(message)
        head, write = wire_format.encode_id(schema_id, indexes), protobuf_writer(file, indexes)
    else:
        write = json_writer(schema)
    return lambda value: head + write(value)


def json_writer(schema: Resolved) -> Callable[[Any], bytes]:
    """Return a function that writes values as JSON. It raises UnfitValue if one does not fit the
    JSON Schema. Raises SchemaError."""
    from pk.core.schemas.json_schema.documents import checker

    check = checker(schema.text, schema.dependencies)

    def write(value: Any) -> bytes:
        check(value)
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

    return write
