"""Records of Confluent's serializers, three versions of a schema in each language, and the values
that its deserializers return with the newest version."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import message_factory

from pk.core.schemas.protobuf.descriptors import load

Made = tuple[list[bytes], list[dict[str, Any]]]
"""The bytes of records, and the values that Confluent's deserializer reads with the newest
schema."""

NOW = datetime.datetime(2026, 5, 4, 3, 2, 1, 123456, tzinfo=datetime.UTC)
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
INNER = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
AVRO_FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "item", "type": ["null", "string"], "default": None},
    {"name": "price", "type": DECIMAL, "default": "\0"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}, "default": 0},
    {"name": "raw", "type": "bytes", "default": ""},
    {"name": "lines", "type": {"type": "array", "items": INNER}, "default": []},
    {"name": "tags", "type": {"type": "map", "values": "int"}, "default": {}},
]
AVRO_DEFAULTS: dict[Any, Any] = {
    "\0": Decimal("0.00"),
    "": b"",
    0: datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC),
}
"""Expected values with defaults. For missing fields, fastavro (and therefore Confluent's
deserializer) returns the schema's defaults in their JSON form."""

AVRO_VALUES: list[dict[str, Any]] = [
    {"id": 1, "old": "gone"},
    {"id": 2, "item": None, "price": Decimal("3.50"), "at": NOW},
    {"id": 3, "item": "rope", "price": Decimal("-0.01"), "at": NOW, "raw": b"\0\xff"}
    | {"lines": [{"sku": "a"}, {"sku": "b"}], "tags": {"x": 1}},
]


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def avro_schemas() -> list[str]:
    old = {"name": "old", "type": "string", "default": ""}
    versions = [[AVRO_FIELDS[0], old], AVRO_FIELDS[:4], AVRO_FIELDS]
    return [json.dumps({"type": "record", "name": "Order", "fields": each}) for each in versions]


def avro(url: str, topic: str) -> Made:
    texts = avro_schemas()
    with SchemaRegistryClient({"url": url}) as client:
        writers: list[Any] = [cast(Any, AvroSerializer)(client, each) for each in texts]
        data = [
            write(value, context(topic)) for write, value in zip(writers, AVRO_VALUES, strict=True)
        ]
        read: Any = cast(Any, AvroDeserializer)(client, texts[-1])
        found: list[dict[str, Any]] = [read(each, context(topic)) for each in data]
    for name, value in ((n, v) for each in found for n, v in list(each.items())):
        for each in found:
            if each[name] is value and isinstance(value, str | int) and name not in ("id", "item"):
                each[name] = AVRO_DEFAULTS[value]
    return data, found


def in_headers(url: str, topic: str) -> tuple[list[bytes], list[list[tuple[str, bytes]]]]:
    """The records of `avro` whose headers name their schemas, and these headers."""
    given = {"schema.id.serializer": header_schema_id_serializer}
    data: list[bytes] = []
    headers: list[list[tuple[str, bytes]]] = []
    with SchemaRegistryClient({"url": url}) as client:
        for text, value in zip(avro_schemas(), AVRO_VALUES, strict=True):
            named: list[Any] = []
            write: Any = cast(Any, AvroSerializer)(client, text, conf=given)
            data.append(write(value, SerializationContext(topic, MessageField.VALUE, named)))
            headers.append(named)
    return data, headers


def protobuf_in_headers(url: str, topic: str) -> tuple[bytes, list[tuple[str, bytes]], Any]:
    """A record of the second message of a file, its headers, and its value."""
    text = 'syntax = "proto3"; message First { int32 x = 1; } message Second { string name = 1; }'
    kind: Any = message_factory.GetMessageClass(load(text).message((1,)))
    given = {"schema.id.serializer": header_schema_id_serializer, "use.deprecated.format": False}
    named: list[Any] = []
    with SchemaRegistryClient({"url": url}) as client:
        write: Any = cast(Any, ProtobufSerializer)(kind, client, given)
        data = write(kind(name="b"), SerializationContext(topic, MessageField.VALUE, named))
    return data, named, {"name": "b"}


def json_schemas() -> list[str]:
    line = {"type": "object", "properties": {"sku": {"type": "string"}}}
    properties: dict[str, Any] = {
        "id": {"type": "integer"},
        "item": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "price": {"type": "number"},
        "lines": {"type": "array", "items": line},
        "tags": {"type": "object", "additionalProperties": {"type": "integer"}},
    }
    names = [("id",), ("id", "item", "price"), tuple(properties)]
    return [
        json.dumps(
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "title": "Order",
                "type": "object",
                "properties": {name: properties[name] for name in each},
                "additionalProperties": each == names[-1] or {"type": "string"},
            }
        )
        for each in names
    ]


JSON_VALUES: list[dict[str, Any]] = [
    {"id": 1},
    {"id": 2, "item": None, "price": 3.5},
    {"id": 3, "item": "ropé", "price": 4, "lines": [{"sku": "a"}], "tags": {"x": 1}},
]


def json_schema(url: str, topic: str) -> Made:
    texts = json_schemas()
    with SchemaRegistryClient({"url": url}) as client:
        client.set_config(f"{topic}-value", _no_rules())
        writers: list[Any] = [cast(Any, JSONSerializer)(each, client) for each in texts]
        data = [
            write(value, context(topic)) for write, value in zip(writers, JSON_VALUES, strict=True)
        ]
        read: Any = cast(Any, JSONDeserializer)(texts[-1], schema_registry_client=client)
        return data, [read(each, context(topic)) for each in data]


def _no_rules() -> Any:
    from confluent_kafka.schema_registry.schema_registry_client import (
        ConfigCompatibilityLevel,
        ServerConfig,
    )

    return ServerConfig(compatibility_level=ConfigCompatibilityLevel.NONE)


PROTO_FIELDS = (
    "int64 id = 1;",
    "optional string item = 2;",
    "uint64 large = 3; Color color = 4; google.protobuf.Timestamp at = 5;",
    "repeated Line lines = 6; map<string, int32> tags = 7; bytes raw = 8;"
    + " oneof o { bool yes = 9; uint32 n = 10; } google.protobuf.StringValue note = 11;",
)
PROTO_HEAD = (
    'syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";'
    ' import "google/protobuf/wrappers.proto";'
    " message Other { int32 x = 1; } "
)
PROTO_TAIL = " message Line { string sku = 1; } enum Color { NONE = 0; RED = 1; }"


def proto_schemas() -> list[str]:
    return [
        f"{PROTO_HEAD} message Order {{ {' '.join(PROTO_FIELDS[:count])} }} {PROTO_TAIL}"
        for count in (1, 3, 4)
    ]


def proto_value(make: Callable[[], Any], number: int) -> Any:
    message = make()
    message.id = number
    if number > 1:
        message.large = (1 << 64) - number
        message.color = 1
        message.at.FromDatetime(NOW)
    if number > 2:
        message.item = "rope"
        message.lines.add().sku = "a"
        message.tags["x"] = 1
        message.raw = b"\0\xff"
        message.n = (1 << 32) - 1
        message.note.value = ""
    return message


def protobuf(url: str, topic: str) -> tuple[list[bytes], list[Any]]:
    """The second part is messages."""
    settings: Any = {"use.deprecated.format": False}
    with SchemaRegistryClient({"url": url}) as client:
        data: list[bytes] = []
        for number, text in enumerate(proto_schemas(), 1):
            make: Any = message_factory.GetMessageClass(load(text).message((1,)))
            write: Any = cast(Any, ProtobufSerializer)(make, client, settings)
            data.append(write(proto_value(make, number), context(topic)))
        newest: Any = message_factory.GetMessageClass(load(proto_schemas()[-1]).message((1,)))
        read: Any = cast(Any, ProtobufDeserializer)(newest, settings, client)
        return data, [read(each, context(topic)) for each in data]
