"""Serializers and deserializers of a program's keys and values, with schemas of a registry.

    schemas = Schemas("http://localhost:8081")
    TypedProducer(producer, key=str.encode, value=SchemaSerializer(schemas, Schema(text)))
    TypedConsumer(consumer, key=bytes.decode, value=SchemaDeserializer(schemas))

The bytes are in Confluent's wire format. A serializer asks the registry before the first record of
a topic, and a deserializer before the first record of a schema, both in a thread; they then keep
the answer.

Values are Python objects: for Avro dictionaries, `datetime`, `Decimal` and `bytes`; for JSON the
results of `json.loads`; for protobuf the values of its JSON mapping. A program with classes of its
own passes functions that convert them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar, overload

from pk.core.schemas import wire_format
from pk.core.schemas.languages import parse
from pk.core.schemas.registry.errors import RegistryError
from pk.core.schemas.schema import AVRO, PROTOBUF, Resolved, Schema, SchemaError, UnfitValue
from pk.core.schemas.serialization import json_writer
from pk.core.schemas.subjects import STRATEGIES
from pk.core.schemas.wire_format import KEY_SCHEMA_ID, MAGIC_ID, VALUE_SCHEMA_ID, SchemaId
from pk.net.client.typed import LoadingDeserializer, LoadingSerializer, NotLoaded, RecordHeaders
from pk.net.schemas.blocking import Schemas

T = TypeVar("T")

SubjectName = Literal["topic", "record", "topic-record"] | Callable[[str, bool, str | None], str]
"""How to name a schema's subject: by TopicNameStrategy (`orders-value`), RecordNameStrategy,
TopicRecordNameStrategy, or a function of the topic, whether the schema is the key's, and the
schema's name."""


class _Writer(NamedTuple):
    """Writes the keys or the values of a topic."""

    head: bytes
    header: tuple[str, bytes] | None
    payload: Callable[[Any], bytes]


class SchemaSerializer(LoadingSerializer[T]):
    """Serializes keys or values with a schema from a registry. A serializer may be used for several
    topics, for keys and values, in any thread."""

    # The options are single keywords, since a program sets one or two of them.
    @overload
    def __init__(
        self: SchemaSerializer[Any],
        schemas: Schemas,
        schema: Schema | None = None,
        *,
        version: int = -1,
        subject: SubjectName = "topic",
        message: str | None = None,
        in_header: bool = False,
    ) -> None: ...

    @overload
    def __init__(
        self,
        schemas: Schemas,
        schema: Schema | None = None,
        *,
        to_value: Callable[[T], Any],
        version: int = -1,
        subject: SubjectName = "topic",
        message: str | None = None,
        in_header: bool = False,
    ) -> None: ...

    @overload
    def __init__(
        self,
        schemas: Schemas,
        schema: Schema | None = None,
        *,
        to_payload: Callable[[T], bytes],
        version: int = -1,
        subject: SubjectName = "topic",
        message: str | None = None,
        in_header: bool = False,
    ) -> None: ...

    def __init__(
        self,
        schemas: Schemas,
        schema: Schema | None = None,
        *,
        to_value: Callable[[T], Any] | None = None,
        to_payload: Callable[[T], bytes] | None = None,
        version: int = -1,
        subject: SubjectName = "topic",
        message: str | None = None,
        in_header: bool = False,
    ) -> None:
        """Initialize the serializer. `schema` is registered under the subject, unless the subject
        has it already. Without `schema`, the serializer uses the subject's `version` (-1: the
        latest at the first record), and registers nothing.

        `to_value` converts a value before it is written; `to_payload` returns the bytes after the
        schema's id, which are then not checked. `message` is the name of the protobuf message
        (default: the first). With `in_header`, the schema's GUID is in a record header, and the
        bytes are only the payload.

        `send` then raises UnfitValue for a value that does not fit the schema, SchemaError,
        RegistryError if the registry refuses the schema, and RegistryUnreachable.
        """
        self._schemas = schemas
        self._schema = schema
        self._to_value = to_value
        self._to_payload = to_payload
        self._version = version
        self._subject = STRATEGIES[subject] if isinstance(subject, str) else subject
        self._message = message
        self._in_header = in_header
        self._writers: dict[tuple[str, bool], _Writer] = {}
        self._loading = threading.Lock()

    def serialize(
        self, topic: str, is_key: bool, value: T
    ) -> tuple[bytes, tuple[str, bytes] | None]:
        """Part of LoadingSerializer."""
        writer = self._writers.get((topic, is_key))
        if writer is None:
            raise NotLoaded(partial(self._load, topic, is_key))
        return writer.head + writer.payload(value), writer.header

    def _load(self, topic: str, is_key: bool) -> None:
        with self._loading:
            if (topic, is_key) not in self._writers:
                self._writers[topic, is_key] = self._writer(topic, is_key)

    def _writer(self, topic: str, is_key: bool) -> _Writer:
        schema_id, resolved = self._found(topic, is_key)
        payload, indexes = _payload_writer(resolved, self._message)
        if self._to_payload is not None:
            payload = self._to_payload
        elif self._to_value is not None:
            payload = _chained(self._to_value, payload)
        if not self._in_header:
            return _Writer(wire_format.encode_id(schema_id, indexes), None, payload)
        # The GUID identifies the schema as the registry stores it.
        guid = self._schemas.by_id(SchemaId(schema_id)).schema.guid
        name = KEY_SCHEMA_ID if is_key else VALUE_SCHEMA_ID
        return _Writer(b"", (name, wire_format.encode_guid(guid, indexes)), payload)

    def _found(self, topic: str, is_key: bool) -> tuple[int, Resolved]:
        """Return the id and the schema."""
        if self._schema is None:
            return self._schemas.of_subject(self._subject(topic, is_key, None), self._version)
        resolved = self._schemas.resolve(self._schema, "")
        subject = self._subject(topic, is_key, parse(resolved).name)
        return self._schemas.register(subject, self._schema), resolved


def _payload_writer(
    schema: Resolved, message: str | None
) -> tuple[Callable[[Any], bytes], tuple[int, ...] | None]:
    """Return a function that writes values, and the position of the protobuf message."""
    kind = schema.schema.type
    if kind == AVRO:
        from pk.core.schemas.avro.values import plain_writer

        return plain_writer(schema.text, schema.dependencies), None
    if kind == PROTOBUF:
        from pk.core.schemas.protobuf.values import writer

        file = parse(schema).model
        indexes = file.indexes_of(message)
        return writer(file, indexes), indexes
    return json_writer(schema), None


def _chained(first: Callable[[T], Any], then: Callable[[Any], bytes]) -> Callable[[T], bytes]:
    return lambda value: then(first(value))


class _Reader(NamedTuple):
    """Reads the payloads of one schema."""

    is_protobuf: bool
    read: Callable[[bytes, tuple[int, ...]], Any]


class SchemaDeserializer(LoadingDeserializer[T]):
    """Deserializes keys or values whose bytes, or a record header, identify a schema in a registry.
    A deserializer may be used for several topics, for keys and values, in any thread."""

    @overload
    def __init__(
        self: SchemaDeserializer[Any], schemas: Schemas, *, schema: Schema | None = None
    ) -> None: ...

    @overload
    def __init__(
        self,
        schemas: Schemas,
        *,
        from_value: Callable[[Any], T],
        schema: Schema | None = None,
    ) -> None: ...

    @overload
    def __init__(self, schemas: Schemas, *, from_payload: Callable[[bytes], T]) -> None: ...

    def __init__(
        self,
        schemas: Schemas,
        *,
        from_value: Callable[[Any], T] | None = None,
        from_payload: Callable[[bytes], T] | None = None,
        schema: Schema | None = None,
    ) -> None:
        """Initialize the deserializer. `from_value` converts a value after it was read;
        `from_payload` takes the bytes after the schema's id, such as `FromString` of a generated
        protobuf class. `schema` is the reader's Avro schema: fields that it lacks are dropped, and
        fields that only it has get their defaults.

        `poll` then raises UndecodableRecord, even if the registry does not have the schema;
        RegistryError if the registry refuses to answer, and RegistryUnreachable.
        """
        self._schemas = schemas
        self._from_value = from_value
        self._from_payload = from_payload
        self._schema = schema
        self._readers: dict[bytes, _Reader] = {}
        """The bytes that identify a schema → its reader."""

        self._refused: dict[bytes, Exception] = {}
        """Why the last load of a schema failed, for the record that needed it."""

        self._loading = threading.Lock()

    def deserialize(self, data: bytes, is_key: bool, headers: RecordHeaders) -> T:
        """Part of LoadingDeserializer."""
        header = None
        if headers:
            wanted = KEY_SCHEMA_ID if is_key else VALUE_SCHEMA_ID
            header = next((found for name, found in headers if name == wanted), None)
        framed = data if header is None else header
        at = 5 if framed[:1] == bytes((MAGIC_ID,)) else 17
        identity = framed[:at]
        reader = self._readers.get(identity)
        if reader is None:
            refusal = self._refused.pop(identity, None)
            if refusal is not None:
                raise refusal
            raise NotLoaded(partial(self._load, identity, wire_format.decode(framed)[0]))
        indexes: tuple[int, ...] = ()
        if reader.is_protobuf:
            indexes, at = wire_format.decode_indexes(framed, at)
        return reader.read(data[at:] if header is None else data, indexes)

    def _load(self, identity: bytes, wanted: SchemaId) -> None:
        with self._loading:
            if identity in self._readers:
                return
            try:
                self._readers[identity] = self._reader(self._schemas.by_id(wanted))
            except (SchemaError, UnfitValue) as e:
                self._refused[identity] = e
            except RegistryError as e:
                if e.status != 404:
                    raise
                self._refused[identity] = e

    def _reader(self, written: Resolved) -> _Reader:
        is_protobuf = written.schema.type == PROTOBUF
        from_payload, from_value = self._from_payload, self._from_value
        if from_payload is not None:

            def read(payload: bytes, indexes: tuple[int, ...]) -> T:
                return from_payload(payload)

            return _Reader(is_protobuf, read)
        plain = self._payload_reader(written)
        if from_value is None:
            return _Reader(is_protobuf, plain)

        def converted(payload: bytes, indexes: tuple[int, ...]) -> T:
            return from_value(plain(payload, indexes))

        return _Reader(is_protobuf, converted)

    def _payload_reader(self, written: Resolved) -> Callable[[bytes, tuple[int, ...]], Any]:
        kind = written.schema.type
        if kind == AVRO:
            from pk.core.schemas.avro.values import reader

            target = None
            if self._schema is not None:
                resolved = self._schemas.resolve(self._schema, "")
                target = resolved.text, resolved.dependencies
            avro = reader(written.text, written.dependencies, target)
            return lambda payload, indexes: avro(payload)
        if self._schema is not None:
            raise UnfitValue(f"it was written as {kind}, but the reader's schema is for Avro")
        if kind == PROTOBUF:
            from pk.core.schemas.protobuf.values import reader as protobuf_reader

            return protobuf_reader(parse(written).model)
        return lambda payload, indexes: json.loads(payload)
