"""Values in each language: beside Confluent's serializers, and what does not fit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from each import for_each

from pk.core.schemas.schema import JSON, PROTOBUF, Resolved, Schema, UnfitValue
from pk.core.schemas.serialization import Deserializer, encoder
from pk.core.schemas.wire_format import SchemaId

EVERYTHING = {
    "type": "record",
    "name": "a.All",
    "fields": [
        {"name": "n", "type": "null"},
        {"name": "b", "type": "boolean"},
        {"name": "i", "type": "int"},
        {"name": "l", "type": "long"},
        {"name": "d", "type": "double"},
        {"name": "s", "type": "string"},
        {"name": "y", "type": "bytes"},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "a", "type": {"type": "array", "items": "int"}},
        {"name": "m", "type": {"type": "map", "values": "string"}},
        {
            "name": "u",
            "type": [
                "null",
                "int",
                "string",
                {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]},
            ],
        },
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "o", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "c",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        },
        {"name": "g", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "z", "type": "int", "default": 7},
    ],
}
VALUE = {
    "n": None,
    "b": True,
    "i": 1,
    "l": 1 << 40,
    "d": 0.5,
    "s": "x",
    "y": "\u00ff\u0000",
    "f": "ab",
    "e": "B",
    "a": [1, 2],
    "m": {"k": "v"},
    "u": {"x": 3},
    "t": "2026-01-02T03:04:05.678000+00:00",
    "o": "2026-01-02",
    "c": "12.50",
    "g": "12345678-1234-5678-1234-567812345678",
    "z": 7,
}
PROTO = (
    'syntax = "proto3"; package p; message A { string s = 1; } message B { message C { int64 n '
    "= 1; } C c = 1; }"
)


def both_ways(schema: Schema, value: Any, message: str | None = None) -> Any:
    """The value, encoded and decoded again."""
    resolved = Resolved(schema)
    data = encoder(resolved, 5, message)(value)

    def ask(wanted: SchemaId) -> Resolved:
        assert wanted == SchemaId(id=5)
        return resolved

    return Deserializer(ask).decode(data)


def test_every_avro_type_comes_back() -> None:
    given = {name: value for name, value in VALUE.items() if name != "z"}
    assert both_ways(Schema(json.dumps(EVERYTHING)), given) == VALUE


@pytest.mark.parametrize("value", [None, 3, "x", {"x": 3}])
def test_unions_find_their_branch(value: Any) -> None:
    union = Schema(json.dumps(EVERYTHING["fields"][11]["type"]))  # type: ignore[index]
    assert both_ways(union, value) == value


def test_unions_are_read_in_avros_own_form_too() -> None:
    assert both_ways(Schema('["null", "int", "string"]'), {"int": 3}) == 3


def test_other_languages() -> None:
    assert both_ways(Schema('{"type": "object"}', JSON), {"a": [1]}) == {"a": [1]}
    assert both_ways(Schema(PROTO, PROTOBUF), {"s": "x"}) == {"s": "x"}
    found = both_ways(Schema(PROTO, PROTOBUF), {"c": {"n": "9"}}, "p.B")
    assert found == {"c": {"n": "9"}}
    assert both_ways(Schema(PROTO, PROTOBUF), {"n": 9}, "B.C") == {"n": "9"}


@for_each(
    ("schema", "value", "words"),
    [
        (Schema('"int"'), "x", "value must be a value of type int"),
        (Schema('{"type": "array", "items": "int"}'), [1, "x"], r"value\[1\] must be"),
        (Schema(json.dumps(EVERYTHING)), {"q": 1}, "has no field q"),
        (Schema(json.dumps(EVERYTHING)), {"n": None}, "the field b is missing"),
        (Schema('["null", "int"]'), "x", "one of null, int"),
        (Schema('{"type": "string", "logicalType": "uuid"}'), "x", "uuid"),
        (Schema('{"type": "enum", "name": "E", "symbols": ["A"]}'), "B", "one of A"),
        (Schema('{"type": "integer"}', JSON), "x", "integer"),
        (Schema(PROTO, PROTOBUF), {"q": 1}, "q"),
        (Schema(PROTO, PROTOBUF), [1], "must be an object"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(schema: Schema, value: Any, words: str) -> None:
    with pytest.raises(UnfitValue, match=words):
        encoder(Resolved(schema), 1)(value)


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        (Schema('"string"'), b"\x09ab"),
        (Schema('"int"'), b"\x02\x02"),
        (Schema('{"type": "object"}', JSON), b"{"),
        (Schema(PROTO, PROTOBUF), b"\x00\x0f"),
    ],
)
def test_bytes_that_are_something_else_are_refused(schema: Schema, payload: bytes) -> None:
    with pytest.raises(UnfitValue):
        Deserializer(lambda _: Resolved(schema)).decode(b"\0\0\0\0\1" + payload)
