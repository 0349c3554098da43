"""The wire format, subjects, canonical text of JSON and protobuf, and schemas that are refused."""

from __future__ import annotations

import base64
import json
import uuid

import pytest
from confluent_kafka.schema_registry.common.serde import SchemaId as TheirId
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from pk.core.schemas import subjects, wire_format
from pk.core.schemas.languages import Parsed, parse
from pk.core.schemas.protobuf.descriptors import load
from pk.core.schemas.schema import AVRO, JSON, PROTOBUF, Reference, Resolved, Schema, SchemaError

INDEXES = st.lists(st.integers(0, 1 << 20), min_size=1, max_size=6)


@given(schema_id=st.integers(0, (1 << 31) - 1), indexes=st.none() | INDEXES)
def test_ids_are_written_as_by_confluents_client(schema_id: int, indexes: list[int] | None) -> None:
    theirs = TheirId("PROTOBUF" if indexes else "AVRO", schema_id, None, indexes)
    ours = wire_format.encode_id(schema_id, indexes)
    assert ours == theirs.id_to_bytes()
    found, at = wire_format.decode(ours + b"rest", protobuf=indexes is not None)
    assert (found.id, found.indexes, at) == (schema_id, tuple(indexes or ()), len(ours))


@given(guid=st.uuids(), indexes=st.none() | INDEXES)
def test_guids_are_written_as_by_confluents_client(
    guid: uuid.UUID, indexes: list[int] | None
) -> None:
    theirs = TheirId("PROTOBUF" if indexes else "AVRO", None, str(guid), indexes)
    ours = wire_format.encode_guid(str(guid), indexes)
    assert ours == theirs.guid_to_bytes()
    found, at = wire_format.decode(ours, protobuf=indexes is not None)
    assert (found.guid, found.indexes, at) == (str(guid), tuple(indexes or ()), len(ours))


@given(data=st.binary(max_size=40), protobuf=st.booleans())
def test_any_other_bytes_are_refused_in_words(data: bytes, protobuf: bool) -> None:
    try:
        _, at = wire_format.decode(data, protobuf=protobuf)
    except wire_format.WireFormatError as e:
        assert str(e)
    else:
        assert at <= len(data)


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("orders-value", "orders-value"),
        (":.test:orders", ":.test:orders"),
        (":.:orders", "orders"),
        (":.test:", ":.test:"),
        (":.test", ":.test:"),
        ("a:b", "a:b"),
    ],
)
def test_a_subject_has_one_name(name: str, normal: str) -> None:
    assert subjects.normalize(name) == normal


@pytest.mark.parametrize("name", ["", "a\nb", "__GLOBAL", "__EMPTY", "x" * 1001])
def test_a_subject_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(subjects.SubjectError):
        subjects.normalize(name)


def test_strategies() -> None:
    assert subjects.STRATEGIES["topic"]("t", True, "a.R") == "t-key"
    assert subjects.STRATEGIES["record"]("t", False, "a.R") == "a.R"
    assert subjects.STRATEGIES["topic-record"]("t", False, "a.R") == "t-a.R"
    with pytest.raises(subjects.SubjectError):
        subjects.STRATEGIES["record"]("t", False, None)


PROTO = """
// A comment.
syntax = "proto3";
package a.b;
import "google/protobuf/timestamp.proto";
import public "other.proto";
option java_package = "x";
option (mine).x = { a: 1 };
message M {
  string a = 1 [deprecated = true, (foo.bar) = "x", json_name = "zz"];
  message N {}
  map<string, int32> m = 2;
  oneof o { int32 x = 3; google.protobuf.Timestamp ts = 44; }
  optional N n = 5;
  E e = 16;
  repeated int32 r = 17;
  message Z { extensions 100 to max; }
  map<string, N> mn = 18;
  other.O other = 19;
  reserved 7 to 9, 1100 to max;
  reserved "foo";
  enum E { option allow_alias = true; A0 = 0; A = 1 [deprecated = true]; B = 1; reserved 2 to 3; }
}
service S { rpc F (M) returns (stream M) { option deprecated = true; } }
"""
OTHER = (
    'syntax = "proto2"; package other; message O { optional group G = 1 { required int32 a = 1 '
    "[default = 7]; } }"
)


def parsed(text: str, kind: str, *dependencies: tuple[str, str]) -> Parsed:
    """A schema with its references."""
    return parse(Resolved(Schema(text, kind), dependencies))


def test_protobuf_text_reads_back_as_the_same_file() -> None:
    first = parsed(PROTO, PROTOBUF, ("other.proto", OTHER))
    again = parsed(first.text, PROTOBUF, ("other.proto", OTHER))
    assert again.text == first.text
    assert again.model.proto.message_type == first.model.proto.message_type
    assert again.model.proto.service == first.model.proto.service
    assert first.name == "a.b.M"


def test_a_proto2_file_reads_back() -> None:
    first = parsed(OTHER, PROTOBUF)
    assert parsed(first.text, PROTOBUF).model.proto == first.model.proto


def test_a_descriptor_is_the_same_schema_as_its_text() -> None:
    first = parsed(PROTO, PROTOBUF, ("other.proto", OTHER))
    serialized = base64.b64encode(first.model.proto.SerializeToString()).decode()
    assert parsed(serialized, PROTOBUF, ("other.proto", OTHER)).text == first.text


def test_places_of_messages_are_those_of_protobufs_own_descriptor() -> None:
    file = load(PROTO, [("other.proto", OTHER)])
    assert file.indexes_of(None) == (0,)
    for name in ("a.b.M.Z", "M.Z"):
        place = file.indexes_of(name)
        assert file.message(place).full_name == "a.b.M.Z"
    assert ProtobufSerializer is not None
    with pytest.raises(SchemaError, match="no message a.b.Nothing"):
        file.indexes_of("a.b.Nothing")
    with pytest.raises(SchemaError, match="no message at index 9"):
        file.message((0, 9))


def test_json_text_keeps_the_order_of_keys_unless_it_is_normalized() -> None:
    text = '{ "type": "object", "properties": {"b": {}, "a": {"type": "string"}} }'
    assert (
        parsed(text, JSON).text == '{"type":"object","properties":{"b":{},"a":{"type":"string"}}}'
    )
    normal = parse(Resolved(Schema(text, JSON)), normalize=True).text
    assert normal == '{"properties":{"a":{"type":"string"},"b":{}},"type":"object"}'


def test_references_are_followed() -> None:
    inner = '{"type": "record", "name": "a.N", "fields": []}'
    outer = '{"type": "record", "name": "a.R", "fields": [{"name": "n", "type": "a.N"}]}'
    assert parsed(outer, AVRO, ("a.N", inner)).text.endswith('"fields":[{"name":"n","type":"N"}]}')
    other = '{"$id": "http://x/other.json", "type": "string"}'
    parsed('{"properties": {"a": {"$ref": "http://x/other.json"}}}', JSON, ("other.json", other))
    parsed('{"properties": {"a": {"$ref": "other.json"}}}', JSON, ("other.json", other))


@for_each(
    ("kind", "text", "words"),
    [
        (AVRO, "{", "not JSON"),
        (AVRO, '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "a.N"}]}', "a.N"),
        (AVRO, json.dumps(["null"] * 1 + [["int"]]), "Nested union"),
        (JSON, "[]", "must be an object"),
        (JSON, '{"type": "strange"}', "strange"),
        (JSON, '{"$ref": "nowhere.json"}', "nowhere.json"),
        (JSON, '{"$ref": "#/definitions/x"}', "#/definitions/x"),
        (PROTOBUF, "message {", "line 1, column 9"),
        (PROTOBUF, 'syntax = "proto3"; message M { Foo a = 1; }', "Foo"),
        (PROTOBUF, 'syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "duplicate"),
        (PROTOBUF, 'syntax = "proto3"; import "x.proto";', "x.proto"),
        (PROTOBUF, 'edition = "2023"; message M {}', "editions"),
        (PROTOBUF, 'syntax = "proto2"; message M { int32 a = 1; }', "label"),
        ("XML", "<a/>", "Invalid schema type XML"),
    ],
)
def test_a_schema_that_is_wrong_is_refused_in_words(kind: str, text: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        parsed(text, kind)


@pytest.mark.parametrize("kind", [AVRO, JSON, PROTOBUF])
def test_what_is_nested_without_end_is_refused(kind: str) -> None:
    deep = {
        AVRO: '{"type":"array","items":' * 5000 + '"int"' + "}" * 5000,
        JSON: '{"not":' * 5000 + "{}" + "}" * 5000,
        PROTOBUF: 'syntax="proto3";' + "message M {" * 300 + "}" * 300,
    }[kind]
    with pytest.raises(SchemaError):
        parsed(deep, kind)


def test_equal_schemas_have_one_identity() -> None:
    one, other = Schema("x"), Schema("x")
    assert one.guid == other.guid
    different = {
        one.guid,
        Schema("y").guid,
        Schema("x", JSON).guid,
        Schema("x", references=(Reference("a", "b", 1),)).guid,
        Schema("x", metadata="{}").guid,
        Schema("x", rule_set="{}").guid,
    }
    assert len(different) == 6
