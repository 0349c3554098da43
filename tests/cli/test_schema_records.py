"""`pk produce --schema` and `pk consume --decode`, beside Confluent's serializers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from schemas.running import Running, running_registry

Run = Callable[..., Any]
SCHEMA = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
PROTO = 'syntax = "proto3"; message A { string s = 1; } message B { int32 n = 1; }'


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running_registry() as found:
        yield found


@pytest.fixture
def at(served: Running, pk: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", served.bootstrap)
    monkeypatch.setenv("PK_SCHEMA_REGISTRY", served.url)
    return pk


def add(at: Run, subject: str, schema: str, kind: str) -> None:
    """Adds a schema."""
    added = at("schema", "add", subject, "-", "--type", kind, "-y", stdin=schema.encode())
    assert added.code == 0, added.err


def encoded(at: Run, topic: str, values: list[str]) -> list[bytes]:
    """The bytes into which --schema encodes JSON."""
    add(at, f"{topic}-value", SCHEMA, "avro")
    model = f"{topic}-encoded"
    done = at("produce", model, "--create", "--schema", f"{topic}-value", *values)
    assert done.code == 0, done.err
    return at("consume", model, "-e", "-f", "%s|").out.split(b"|")[:-1]


def write(at: Run, topic: str, values: list[bytes]) -> None:
    """Writes these values in one batch."""
    lines = [json.dumps({"value_b64": base64.b64encode(v).decode()}) for v in values]
    done = at("produce", topic, "--create", "-f", "jsonl", stdin="\n".join(lines).encode())
    assert done.code == 0, done.err


def test_what_pk_writes_confluents_deserializer_reads(at: Run, served: Running) -> None:
    add(at, "written-value", SCHEMA, "avro")
    done = at("produce", "written", "--create", "--schema", "written-value", '{"a": 1}', '{"a": 2}')
    assert done.code == 0, done.err
    consumer = Consumer(
        {
            "bootstrap.servers": served.bootstrap,
            "group.id": "written",
            "auto.offset.reset": "earliest",
        }
    )
    context = SerializationContext("written", MessageField.VALUE)
    try:
        consumer.subscribe(["written"])
        with SchemaRegistryClient({"url": served.url}) as client:
            read: Any = cast(Any, AvroDeserializer)(client)
            found = []
            while len(found) < 2:
                message = consumer.poll(60)
                assert message is not None and message.error() is None
                found.append(read(message.value(), context))
    finally:
        consumer.close()
    assert found == [{"a": 1}, {"a": 2}]
    shown = at("consume", "written", "-o", "start..end", "--decode", "avro")
    assert shown.lines == ['{"a":1}', '{"a":2}']
    chosen = at(
        "consume", "written", "-o", "start..end", "--decode", "auto", "--where", "value.a = 2"
    )
    assert chosen.lines == ['{"a":2}']
    wrong = at("consume", "written", "-o", "start..end", "--decode", "json")
    assert wrong.code == 1 and "its schema is avro, not json" in wrong.err


def test_what_confluents_serializer_writes_pk_reads(at: Run, served: Running) -> None:
    """The id may precede the value, or the GUID be in a header."""
    producer = Producer({"bootstrap.servers": served.bootstrap})
    with SchemaRegistryClient({"url": served.url}) as client:
        for topic, config in (
            ("ids", {}),
            ("guids", {"schema.id.serializer": header_schema_id_serializer}),
        ):
            headers: list[Any] = []
            context = SerializationContext(topic, MessageField.VALUE, headers)
            write: Any = cast(Any, AvroSerializer)(client, SCHEMA, None, config)
            producer.produce(topic, write({"a": 7}, context), headers=headers)
    producer.flush(60)
    for topic in ("ids", "guids"):
        shown = at("consume", topic, "-o", "start..end", "--decode", "auto")
        assert shown.lines == ['{"a":7}'], shown.err


def test_protobuf_and_json(at: Run) -> None:
    add(at, "proto-value", PROTO, "protobuf")
    add(at, "json-value", '{"type": "object", "required": ["x"]}', "json")
    assert at("produce", "mixed", "--create", "--schema", "proto-value:1#B", '{"n": 3}').code == 0
    assert at("produce", "mixed", "--schema", "json-value", '{"x": 1}').code == 0
    shown = at("consume", "mixed", "-o", "start..end", "--decode", "auto")
    assert shown.lines == ['{"n":3}', '{"x":1}']


def test_what_does_not_fit_is_not_written(at: Run) -> None:
    add(at, "fit-value", SCHEMA, "avro")
    wrong = at("produce", "fit", "--create", "--schema", "fit-value", '{"a": "x"}')
    assert wrong.code == 1 and "value.a must be" in wrong.err
    assert at("produce", "fit", "--schema", "nothing", "{}").code == 1
    order = (
        'syntax = "proto3"; message Order { int32 amount = 1; repeated Line lines = 2; '
        "message Line { string item = 1; } }"
    )
    add(at, "fit-proto", order, "protobuf")
    for value, said in (
        ('{"amuont": 1}', "Order has no field 'amuont' (did you mean amount?)."),
        ('{"amount": "x"}', "the field amount: 'x' is not a whole number"),
        ('{"lines": {"item": "a"}}', "the field lines: it must be a list"),
        ('{"lines": [{"item": 1}]}', "the field lines.item: it must be a string"),
    ):
        unfit = at("produce", "fit", "--schema", "fit-proto", value)
        assert f"the value does not fit its schema: {said}" in unfit.err, unfit.err
        assert unfit.err.count("\n") == 1, unfit.err
    misspelled = at("produce", "fit", "--schema", "fit-valeu", "{}")
    assert (misspelled.code, "did you mean fit-value" in misspelled.err) == (1, True)
    assert at("produce", "fit", "--schema", "fit-value", "{").code == 1
    assert at("produce", "fit", "--schema", "fit-value", "--fake", "users").code == 2
    assert at("produce", "fit", "plain").code == 0
    refused = at("consume", "fit", "-o", "start..end", "--decode", "auto")
    assert refused.code == 1 and "not 0 or 1" in refused.err
    skipped = at(
        "consume", "fit", "-o", "start..end", "--decode", "auto", "--skip-message-on-error"
    )
    assert skipped.code == 1 and skipped.out == b""


def test_nulls_and_keys(at: Run) -> None:
    add(at, "keys-value", SCHEMA, "avro")
    at("produce", "keys", "--create", "--schema", "keys-value", "-k", "plain", '{"a": 1}')
    at("produce", "keys", "-Z", "-k", "gone", "")
    shown = at("consume", "keys", "-o", "start..end", "--decode", "avro", "-f", "jsonl")
    assert [(json.loads(each)["key"], json.loads(each)["value"]) for each in shown.lines] == [
        ("plain", '{"a":1}'),
        ("gone", None),
    ]
    keys = at("consume", "keys", "-o", "start..end", "--decode-key", "auto")
    assert keys.code == 1


def test_a_record_that_cannot_be_decoded_fails_only_who_asked_for_it(at: Run) -> None:
    """All four records are in one batch. Those before the bad one are shown."""
    good = encoded(at, "half", ['{"a": 1}'])
    write(at, "half", [*good * 2, b"bad", *good])
    read = ("consume", "half", "--decode", "auto")
    few = at(*read, "--from-beginning", "-n", "2", "--skip-message-on-error")
    assert (few.code, few.lines) == (0, ['{"a":1}'] * 2), few.err
    cut = at(*read, "-e", "-f", "json")
    assert (cut.code, [each["offset"] for each in cut.json]) == (1, [0, 1])
    chosen = at(*read, "-e", "--where", "offset != 1")
    assert (chosen.code, chosen.lines) == (1, ['{"a":1}'])
    skipped = at(*read, "-e", "-n", "3", "--skip-message-on-error")
    assert (skipped.code, skipped.lines) == (1, ['{"a":1}'] * 3)


def test_a_member_commits_what_it_showed_before_a_record_that_ends_it(at: Run) -> None:
    good = encoded(at, "ended", ['{"a": 1}'])
    write(at, "ended", [*good * 2, b"bad", *good])
    read = (
        "consume",
        "ended",
        "-g",
        "enders",
        "--from-beginning",
        "--decode",
        "auto",
        "-f",
        "json",
    )
    cut = at(*read, "-e")
    assert (cut.code, [each["offset"] for each in cut.json]) == (1, [0, 1]), cut.err
    rest = at(*read, "-e", "--skip-message-on-error")
    assert (rest.code, [each["offset"] for each in rest.json]) == (1, [3]), rest.err


def test_the_newest_are_looked_for_without_reading_a_record_twice(at: Run) -> None:
    """The last record cannot be decoded. It is reported once, even though --tail reads it again."""
    good = encoded(at, "twice", [json.dumps({"a": i}) for i in range(19)])
    write(at, "twice", [*good, b"bad"])
    newest = at("consume", "twice", "--tail", "3", "--decode", "auto", "--skip-message-on-error")
    assert (newest.code, newest.lines) == (1, ['{"a":16}', '{"a":17}', '{"a":18}'])
    assert newest.err.count("cannot be shown") == 1


def test_the_newest_are_shown_though_an_older_one_cannot_be_decoded(at: Run) -> None:
    good = encoded(at, "older", ['{"a": 1}', '{"a": 2}'])
    assert at("topics", "create", "older", "-p", "2").code == 0
    written = at("produce", "older", "-p", "0", "--timestamp", "2026-01-01", "no schema")
    assert written.code == 0, written.err
    lines = [json.dumps({"value_b64": base64.b64encode(v).decode()}) for v in good]
    at("produce", "older", "-p", "1", "-f", "jsonl", stdin="\n".join(lines).encode())
    newest = at("consume", "older", "--tail", "2", "--decode", "auto")
    assert (newest.code, newest.lines) == (0, ['{"a":1}', '{"a":2}']), newest.err
    all_of_them = at("consume", "older", "--tail", "3", "--decode", "auto")
    assert (all_of_them.code, all_of_them.out) == (1, b"")
    assert "older/0 @ 0 cannot be shown" in all_of_them.err
