"""The files that schemas of protobuf import without a reference: those that others ship."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from each import for_each
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from pk.core.schemas.protobuf.built_in import NAMES
from pk.core.schemas.protobuf.descriptors import load
from pk.core.schemas.schema import SchemaError

CONFLUENT = "confluent_kafka.schema_registry.confluent"


def theirs(name: str) -> descriptor_pb2.FileDescriptorProto:
    """The file in its owners' package."""
    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    if name.startswith("confluent/"):
        module = CONFLUENT + module.removeprefix("confluent")
    found = descriptor_pb2.FileDescriptorProto()
    library: Any = importlib.import_module(module)
    library.DESCRIPTOR.CopyToProto(found)
    found.ClearField("options")  # names for generated code
    return found


def resolved(name: str) -> descriptor_pb2.FileDescriptorProto:
    """The file as a schema sees it that imports it."""
    file = load(f'syntax = "proto3"; import "{name}"; message M {{}}')
    found = descriptor_pb2.FileDescriptorProto()
    pool: Any = file.descriptor.pool
    pool.FindFileByName(name).CopyToProto(found)
    found.ClearField("options")
    return found


@for_each("name", sorted(NAMES))
def test_a_file_is_that_of_its_owners(name: str) -> None:
    ours, expected = resolved(name), theirs(name)
    for file in (ours, expected):
        for message in file.message_type:
            for field in message.field:
                field.ClearField("json_name")
                field.ClearField("options")
        for extension in file.extension:
            extension.ClearField("json_name")
    if name.startswith("google/protobuf/"):
        assert ours.name == expected.name
    else:
        assert ours == expected


def test_confluents_registry_has_no_others() -> None:
    """All that its clients leave out is there (`_is_builtin` of confluent-kafka)."""
    assert {name.rpartition("/")[0] for name in NAMES} == {
        "confluent",
        "confluent/type",
        "google/protobuf",
        "google/type",
    }


def test_what_nobody_has_needs_a_reference() -> None:
    with pytest.raises(SchemaError, match="google/type/nothing.proto"):
        load('syntax = "proto3"; import "google/type/nothing.proto"; message M {}')


def test_a_reference_of_that_name_comes_first() -> None:
    own = 'syntax = "proto3"; package google.type; message Date { string iso = 1; }'
    text = """syntax = "proto3"; import "google/type/date.proto";
        message M { google.type.Date at = 1; }"""
    file = load(text, [("google/type/date.proto", own)])
    at = file.message((0,)).fields_by_name["at"].message_type
    assert at is not None
    assert [field.name for field in at.fields] == ["iso"]


def test_options_of_confluents_meta() -> None:
    text = """syntax = "proto3"; import "confluent/meta.proto";
        message M {
          option (confluent.message_meta).doc = "of people";
          string name = 1 [(confluent.field_meta).tags = "PII"];
        }"""
    assert load(text).message((0,)).fields_by_name["name"].number == 1


def test_values_of_these_types_are_those_of_others() -> None:
    from google.type import money_pb2

    text = """syntax = "proto3"; import "google/type/money.proto";
        message M { google.type.Money price = 1; }"""
    kind = message_factory.GetMessageClass(load(text).message((0,)))
    message: Any = kind()
    message.price.currency_code, message.price.units, message.price.nanos = "EUR", 12, 500_000_000
    expected = money_pb2.Money(currency_code="EUR", units=12, nanos=500_000_000)
    assert message.price.SerializeToString() == expected.SerializeToString()
    assert descriptor_pool.Default() is not message.DESCRIPTOR.file.pool
