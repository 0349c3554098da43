"""Confluent's own Python client and serializers, unchanged, against a registry of pk, on pk and on
Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from clients.fixtures import fresh_name
from confluent_kafka.schema_registry import (
    RegisteredSchema,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.schema_registry_client import (
    ConfigCompatibilityLevel,
    ServerConfig,
)
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format, message_factory
from schemas.running import Running, running_registry

from pk.core.schemas.protobuf.descriptors import load


@pytest.fixture(scope="module", params=["pk", pytest.param("apache", marks=pytest.mark.peer)])
def registry(request: pytest.FixtureRequest) -> Iterator[Running]:
    """A registry whose topic is on a broker of pk, then (mark `peer`) on Apache Kafka."""
    more: dict[str, Any] = {}
    if request.param == "apache":
        more["bootstrap"] = request.getfixturevalue("apache").bootstrap
        more["topic"] = more["group"] = fresh_name("schemas")
    with running_registry(**more) as found:
        yield found


@pytest.fixture
def client(registry: Running) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as found:
        yield found


def avro(*fields: dict[str, Any], name: str = "R") -> Schema:
    """A record."""
    return Schema(json.dumps({"type": "record", "name": name, "fields": list(fields)}), "AVRO")


A = {"name": "a", "type": "int"}
B = {"name": "b", "type": "string"}
B_OPTIONAL = {"name": "b", "type": "string", "default": "x"}


def refusal(call: Any, *args: Any, **more: Any) -> tuple[int, int]:
    """The HTTP status and the registry's code of a call that must be refused."""
    with pytest.raises(SchemaRegistryError) as caught:
        call(*args, **more)
    return caught.value.http_status_code, caught.value.error_code


def test_versions_of_a_subject(client: SchemaRegistryClient) -> None:
    first = client.register_schema("versions-value", avro(A))
    assert client.register_schema("versions-value", avro(A)) == first
    second = client.register_schema("versions-value", avro(A, B_OPTIONAL))
    assert second != first
    assert client.register_schema("versions-other", avro(A)) == first, "one schema has one id"
    client.clear_caches()
    assert client.get_versions("versions-value") == [1, 2]
    latest = client.get_latest_version("versions-value")
    assert (latest.version, latest.schema_id) == (2, second)
    assert client.get_version("versions-value", 1).schema_id == first
    assert json.loads(client.get_schema(first).schema_str or "")["fields"] == [A]
    assert client.lookup_schema("versions-value", avro(A)).version == 1
    assert client.get_subjects_by_schema_id(first) == ["versions-other", "versions-value"]
    found = client.get_schema_versions(first)
    assert [(each.subject, each.version) for each in found] == [
        ("versions-other", 1),
        ("versions-value", 1),
    ]
    assert {"versions-other", "versions-value"} <= set(
        client.get_subjects(subject_prefix="versions")
    )
    assert client.get_schema_types() == ["JSON", "PROTOBUF", "AVRO"]
    assert latest.guid is not None
    assert client.get_schema_by_guid(latest.guid).schema_str == latest.schema.schema_str


def test_what_is_missing_or_wrong_has_confluents_codes(client: SchemaRegistryClient) -> None:
    client.register_schema("codes-value", avro(A))
    assert refusal(client.get_versions, "codes-none") == (404, 40401)
    assert refusal(client.get_latest_version, "codes-none") == (404, 40401)
    assert refusal(client.get_version, "codes-value", 9) == (404, 40402)
    assert refusal(client.get_version, "codes-value", 0) == (422, 42202)
    assert refusal(client.get_schema, 999_999) == (404, 40403)
    assert refusal(client.lookup_schema, "codes-value", avro(B)) == (404, 40403)
    assert refusal(client.lookup_schema, "codes-none", avro(B)) == (404, 40401)
    assert refusal(client.register_schema, "codes-value", Schema("{", "AVRO")) == (422, 42201)
    assert refusal(client.register_schema, "codes-value", Schema("{}", "XML")) == (422, 42201)
    assert refusal(client.register_schema, "codes-value", avro(A, B)) == (409, 409)
    assert refusal(client.set_compatibility, "codes-value", "sideways") == (422, 42203)
    assert refusal(client.get_compatibility, "codes-value") == (404, 40408)
    assert refusal(client.get_mode, "codes-value") == (404, 40409)
    assert refusal(client.update_mode, "codes-value", "SOMETIMES") == (422, 42204)
    assert refusal(client.register_schema, "codes\nvalue", avro(A)) == (422, 42208)


def test_settings(client: SchemaRegistryClient) -> None:
    assert client.get_compatibility() == "BACKWARD"
    client.register_schema("settings-value", avro(A))
    assert not client.test_compatibility("settings-value", avro(A, B))
    assert client.test_compatibility("settings-value", avro(A, B_OPTIONAL))
    assert client.test_compatibility("settings-none", avro(A))
    client.set_compatibility("settings-value", "FORWARD")
    assert client.get_compatibility("settings-value") == "FORWARD"
    assert client.test_compatibility("settings-value", avro(A, B))
    assert client.test_compatibility_all_versions("settings-value", avro(A, B))
    client.set_config("settings-value", ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
    assert client.get_config("settings-value").compatibility_level == "NONE"
    client.register_schema("settings-value", avro(B))
    client.delete_config("settings-value")
    assert refusal(client.get_compatibility, "settings-value") == (404, 40408)
    client.update_mode("settings-value", "READONLY")
    assert client.get_mode("settings-value") == "READONLY"
    assert refusal(client.register_schema, "settings-value", avro(name="S")) == (422, 42205)
    assert refusal(client.delete_subject, "settings-value") == (422, 42205)
    client.delete_mode("settings-value")
    assert client.get_global_mode() == "READWRITE"


def test_deletion_for_the_time_being_and_for_ever(client: SchemaRegistryClient) -> None:
    client.register_schema("deleted-value", avro(A))
    client.register_schema("deleted-value", avro(A, B_OPTIONAL))
    assert refusal(client.delete_version, "deleted-value", 1, permanent=True) == (404, 40407)
    assert client.delete_version("deleted-value", 1) == 1
    assert refusal(client.delete_version, "deleted-value", 1) == (404, 40406)
    assert client.get_versions("deleted-value") == [2]
    assert client.get_versions("deleted-value", deleted=True) == [1, 2]
    assert refusal(client.delete_subject, "deleted-value", permanent=True) == (404, 40405)
    assert client.delete_subject("deleted-value") == [2]
    assert refusal(client.delete_subject, "deleted-value") == (404, 40404)
    assert "deleted-value" not in client.get_subjects()
    assert "deleted-value" in client.get_subjects(deleted=True)
    client.clear_caches()
    client.register_schema("deleted-value", avro(A))
    assert client.get_versions("deleted-value") == [3]
    client.delete_subject("deleted-value")
    assert client.delete_subject("deleted-value", permanent=True) == [1, 2, 3]
    assert "deleted-value" not in client.get_subjects(deleted=True)


def test_references_hold_what_they_refer_to(client: SchemaRegistryClient) -> None:
    client.register_schema("reference-inner", avro(A, name="x.Inner"))
    outer = avro({"name": "inner", "type": "x.Inner"}, name="x.Outer")
    assert refusal(client.register_schema, "reference-outer", outer) == (422, 42201)
    outer = Schema(outer.schema_str, "AVRO", [SchemaReference("x.Inner", "reference-inner", 1)])
    schema_id = client.register_schema("reference-outer", outer)
    assert client.get_referenced_by("reference-inner", 1) == [schema_id]
    assert refusal(client.delete_version, "reference-inner", 1) == (422, 42206)
    assert refusal(client.delete_subject, "reference-inner") == (422, 42206)
    client.delete_subject("reference-outer")
    assert client.delete_subject("reference-inner") == [1]


def test_contexts_have_ids_of_their_own(client: SchemaRegistryClient) -> None:
    assert client.register_schema(":.one:contexts", avro(A, name="OnlyHere")) == 1
    assert client.register_schema(":.two:contexts", avro(B, name="OnlyThere")) == 1
    assert {".", ".one", ".two"} <= set(client.get_contexts())
    assert (
        client.get_schema(1, ":.one:contexts").schema_str
        != client.get_schema(1, ":.two:contexts").schema_str
    )


def context(topic: str = "t") -> SerializationContext:
    """The context in which a value is serialized."""
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_serializers(client: SchemaRegistryClient) -> None:
    given = {"a": 7, "b": "seven"}
    write: Any = cast(Any, AvroSerializer)(client, avro(A, B).schema_str)
    data = write(given, context("avro"))
    assert cast(Any, AvroDeserializer)(client)(data, context("avro")) == given
    narrow = cast(Any, AvroDeserializer)(client, avro(A).schema_str)
    assert narrow(data, context("avro")) == {"a": 7}


def test_avro_serializers_with_references(client: SchemaRegistryClient) -> None:
    inner = {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}}
    client.register_schema("avro-inner", avro(inner, name="y.Inner"))
    outer = avro({"name": "inner", "type": "y.Inner"}, name="y.Outer")
    schema = Schema(outer.schema_str, "AVRO", [SchemaReference("y.Inner", "avro-inner", 1)])
    data = cast(Any, AvroSerializer)(client, schema)({"inner": {"when": 1000}}, context("avro-ref"))
    found = cast(Any, AvroDeserializer)(client)(data, context("avro-ref"))
    assert found["inner"]["when"].timestamp() == 1.0


def test_json_serializers(client: SchemaRegistryClient) -> None:
    schema = json.dumps(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "Order",
            "type": "object",
            "properties": {"id": {"type": "integer"}, "item": {"type": "string"}},
            "required": ["id"],
        }
    )
    given = {"id": 1, "item": "anchor"}
    data = cast(Any, JSONSerializer)(schema, client)(given, context("json"))
    read: Any = cast(Any, JSONDeserializer)(None, schema_registry_client=client)
    assert read(data, context("json")) == given


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Other { int32 n = 1; }
message Order {
  message Line { string item = 1; int64 count = 2; }
  int64 id = 1;
  repeated Line lines = 2;
  map<string, Line> by_name = 3;
  google.protobuf.Timestamp at = 4;
}
"""


@pytest.mark.parametrize("name", ["shop.Order", "shop.Order.Line", "shop.Other"])
def test_protobuf_serializers(client: SchemaRegistryClient, name: str) -> None:
    """They send descriptors in base64, and ask for them; the registry keeps text."""
    file = load(PROTO)
    kind: Any = message_factory.GetMessageClass(file.message(file.indexes_of(name)))
    text = {"shop.Order": '{"id": 1, "lines": [{"item": "x"}], "at": "1970-01-01T00:00:07Z"}'}
    given = json_format.Parse(text.get(name, "{}"), kind())
    write: Any = cast(Any, ProtobufSerializer)(kind, client, {"use.deprecated.format": False})
    data = write(given, context(name))
    read: Any = cast(Any, ProtobufDeserializer)(kind, {"use.deprecated.format": False}, client)
    assert read(data, context(name)) == given
    found = client.get_latest_version(f"{name}-value").schema
    assert found.schema_type == "PROTOBUF"
    assert (found.schema_str or "").startswith('syntax = "proto3";\npackage shop;')
    assert client.get_versions(f"{name}-value") == [1]


IMPORTS = """
syntax = "proto3";
package shop;
import "google/type/date.proto";
import "google/type/money.proto";
import "google/type/timeofday.proto";
import "google/type/postal_address.proto";
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
message Bill {
  google.type.Date day = 1;
  google.type.Money price = 2;
  google.type.TimeOfDay at = 3;
  google.type.PostalAddress to = 4;
  confluent.type.Decimal rate = 5 [(confluent.field_meta).doc = "a share"];
}
"""


def test_files_that_clients_never_send(client: SchemaRegistryClient) -> None:
    """The serializer registers no references to them."""
    file = load(IMPORTS)
    kind: Any = message_factory.GetMessageClass(file.message(file.indexes_of("shop.Bill")))
    given = json_format.Parse(
        '{"day": {"year": 2026, "month": 2}, "price": {"units": 3}, "rate": {"scale": 2}}', kind()
    )
    write: Any = cast(Any, ProtobufSerializer)(kind, client, {"use.deprecated.format": False})
    data = write(given, context("bill"))
    read: Any = cast(Any, ProtobufDeserializer)(kind, {"use.deprecated.format": False}, client)
    assert read(data, context("bill")) == given
    assert not client.get_latest_version("bill-value").schema.references
    assert client.get_subjects(subject_prefix="bill") == ["bill-value"]


def test_what_is_registered_comes_back_whole(client: SchemaRegistryClient) -> None:
    text = 'syntax = "proto3"; package p; message M { message N {} map<string, N> m = 1; }'
    found: RegisteredSchema = client.register_schema_full_response(
        "whole-value", Schema(text, "PROTOBUF")
    )
    assert found.schema_id is not None
    client.clear_caches()
    again = client.get_schema(found.schema_id, fmt="serialized").schema_str
    assert client.lookup_schema("whole-value", Schema(again, "PROTOBUF")).version == 1
