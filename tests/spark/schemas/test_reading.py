"""Columns of a source with schemas: records of Confluent's serializers, beside what its
deserializers read."""

from __future__ import annotations

import datetime
import json
import pickle
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import confluent_records as confluent
import pyarrow as pa
import pytest
from each import for_each
from pyspark.sql import types as t
from schemas.running import Running, running_registry

from pk.core.record.columns import ROW_SCHEMA, ROW_SCHEMA_WITH_HEADERS
from pk.core.schemas.schema import Reference, Resolved, Schema, SchemaError
from pk.net.schemas.blocking import Schemas
from pk.spark.errors import OptionError
from pk.spark.schemas import avro_columns, json_columns, protobuf_columns
from pk.spark.schemas.options import split_options
from pk.spark.schemas.reading import NewSchemaVersion, Reading, Undecodable
from pk.spark.schemas.source_columns import reading_of, source_columns, typed

AVRO = {"value.format": "avro"}
BROKER = {"kafka.bootstrap.servers": "localhost:1"}


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running_registry() as found:
        yield found


def read(
    url: str, topic: str, data: Sequence[bytes | None], options: dict[str, str]
) -> list[dict[str, Any]]:
    """Rows of a batch as a task makes them, from data that came over a pipe."""
    reading = reading_of({"schema.registry.url": url, "subscribe": topic, **BROKER, **options})
    schema = typed(reading, headers=False)
    sent: Reading = pickle.loads(pickle.dumps(reading))
    written = pickle.loads(pickle.dumps(reading.written()))
    [found] = sent.rows([with_headers(topic, data, [None] * len(data))], written, schema)
    return found.to_pylist(maps_as_pydicts="strict")


def batch(topic: str, data: Sequence[bytes | None]) -> pa.RecordBatch:
    """Records as they are read, before keys and values are decoded."""
    count = len(data)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(data, pa.binary()),
            pa.array(data, pa.binary()),
            pa.array([topic] * count),
            pa.array([0] * count, pa.int32()),
            pa.array(range(count), pa.int64()),
            pa.array([0] * count, pa.timestamp("us", "UTC")),
            pa.array([0] * count, pa.int32()),
        ],
        schema=ROW_SCHEMA,
    )


def with_headers(
    topic: str, data: Sequence[bytes | None], headers: Sequence[Any]
) -> pa.RecordBatch:
    """The same with the column of headers, which tasks always read."""
    found = pa.array(headers, ROW_SCHEMA_WITH_HEADERS.field("headers").type)
    return batch(topic, data).append_column("headers", found)


def values(rows: list[dict[str, Any]]) -> list[Any]:
    return [each["value"] for each in rows]


def test_three_versions_of_avro_in_one_batch(served: Running) -> None:
    data, wanted = confluent.avro(served.url, "avro")
    found = values(read(served.url, "avro", [*data, None], AVRO))
    assert found == [*wanted, None]


def test_three_versions_of_json_schema_in_one_batch(served: Running) -> None:
    data, wanted = confluent.json_schema(served.url, "json")
    found = values(read(served.url, "json", [*data, None], {"value.format": "json"}))
    assert found.pop() is None
    names = ("id", "item", "price", "lines", "tags")
    assert found == [{name: each.get(name) for name in names} for each in wanted]


def test_three_versions_of_protobuf_in_one_batch(served: Running) -> None:
    data, wanted = confluent.protobuf(served.url, "proto")
    options = {"value.format": "protobuf", "value.schema.name": "Order"}
    found = values(read(served.url, "proto", [*data, None], options))
    assert found.pop() is None
    for row, message in zip(found, wanted, strict=True):
        assert row == {
            "id": message.id,
            "item": message.item if message.HasField("item") else None,
            "large": Decimal(message.large),
            "color": ("NONE", "RED")[message.color],
            "at": confluent.NOW if message.HasField("at") else None,
            "lines": [{"sku": each.sku} for each in message.lines],
            "tags": dict(message.tags),
            "raw": message.raw,
            "yes": None,
            "n": message.n if message.HasField("n") else None,
            "note": message.note.value if message.HasField("note") else None,
        }
    with pytest.raises(Undecodable, match=r"holds the message shop\.Order, not shop\.Other"):
        read(served.url, "proto", [data[0]], {"value.format": "protobuf"})


def test_an_earlier_version_or_an_id_reads_too(served: Running) -> None:
    data, _ = confluent.avro(served.url, "pinned")
    options = {"value.format": "avro", "value.schema.version": "1"}
    assert values(read(served.url, "pinned", data[:1], options)) == [{"id": 1, "old": "gone"}]
    first = int.from_bytes(data[0][1:5], "big")
    options = {"value.format": "avro", "value.schema.id": str(first)}
    assert values(read(served.url, "pinned", data, options)) == [
        {"id": 1, "old": "gone"},
        {"id": 2, "old": ""},
        {"id": 3, "old": ""},
    ]


def test_bytes_stay_beside_what_is_decoded(served: Running) -> None:
    data, wanted = confluent.avro(served.url, "kept")
    given = [data[0], b"plain", None]
    options = {
        **AVRO,
        "key.format": "avro",
        "key.schema.subject": "kept-value",
        "schema.on.error": "null",
        "schema.include.bytes": "true",
    }
    rows = read(served.url, "kept", given, options)
    for column in ("key", "value"):
        assert [each[column] for each in rows] == [wanted[0], None, None]
        assert [each[f"{column}_bytes"] for each in rows] == given
        assert [each[f"{column}_error"] is None for each in rows] == [True, False, True]


def test_what_cannot_be_decoded_fails_or_is_an_error_column(served: Running) -> None:
    data, wanted = confluent.avro(served.url, "bad")
    unknown = b"\0\0\1\0\0x"
    bad = [data[0], b"plain", unknown, data[2][:-3], None]
    with pytest.raises(Undecodable, match=r"offset 1 of bad-0 cannot be decoded: .*first byte"):
        read(served.url, "bad", bad, AVRO)
    options = {"value.format": "avro", "schema.on.error": "null"}
    rows = read(served.url, "bad", bad, options)
    assert values(rows) == [wanted[0], None, None, None, None]
    errors = [each["value_error"] for each in rows]
    assert errors[0] is None and errors[4] is None
    assert [each["bytes"] for each in errors[1:4]] == bad[1:4]
    assert "id 65536, which no version of bad-value has" in errors[2]["message"]
    assert "not Avro of its schema" in errors[3]["message"]


def test_a_version_that_comes_while_a_query_runs(served: Running) -> None:
    """The query keeps its columns; with `fail` it ends before it reads."""
    schemas = Schemas(served.url)

    def order(*names: str) -> Schema:
        fields = [{"name": each, "type": "int", "default": 0} for each in names]
        return Schema(json.dumps({"type": "record", "name": "Order", "fields": fields}))

    schemas.register("later-value", order("a"))
    given = {"schema.registry.url": served.url, "subscribe": "later", "value.format": "avro"}
    keeps = reading_of(given | BROKER)
    fails = reading_of({**given, **BROKER, "schema.on.new.version": "fail"})
    columns = keeps.choose(), fails.choose()
    assert fails.written()
    second = schemas.register("later-value", order("a", "b"))
    [row] = keeps.rows(
        [with_headers("later", [b"\0" + second.to_bytes(4, "big") + b"\x06\x08"], [None])],
        keeps.written(),
        source_columns(columns[0]),
    )
    assert row["value"].to_pylist() == [{"a": 3}]
    with pytest.raises(NewSchemaVersion, match="later-value has version 2"):
        fails.written()
    # Planned before the version came, and made in another process after it.
    again = reading_of(given | BROKER)
    assert again.choose(columns[0]) == columns[0]
    assert again.choose() != columns[0]


def test_the_password_stays_with_the_driver(served: Running) -> None:
    given = {
        "schema.registry.url": served.url,
        "schema.registry.basic.auth.user.info": "reader:s3cret",
        "subscribe": "avro",
        "value.format": "avro",
    }
    confluent.avro(served.url, "avro")
    reading = reading_of(given | BROKER)
    reading.choose()
    sent = pickle.dumps(reading)
    assert b"s3cret" not in sent and served.url.encode() not in sent
    assert b"s3cret" not in pickle.dumps(reading.written())


def test_a_directory_with_references(tmp_path: Path) -> None:
    schemas = Schemas(str(tmp_path))
    line = {"type": "record", "name": "Line", "namespace": "shop", "fields": []}
    line["fields"] = [{"name": "sku", "type": "string"}]
    schemas.register("line", Schema(json.dumps(line)))
    order = {"type": "record", "name": "Order", "namespace": "shop"}
    order["fields"] = [{"name": "line", "type": "shop.Line"}]  # type: ignore[assignment]
    reference = (Reference("shop.Line", "line", 1),)
    number = schemas.register("t-value", Schema(json.dumps(order), references=reference))
    data: list[bytes | None] = [b"\0" + number.to_bytes(4, "big") + b"\x02a"]
    found = read(str(tmp_path), "t", data, AVRO)
    assert values(found) == [{"line": {"sku": "a"}}]


def avro_type(kind: Any) -> str:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]})
    found = avro_columns.shape(Resolved(Schema(text))).type
    assert isinstance(found, t.StructType)
    return found["f"].dataType.simpleString()


@for_each(
    ("kind", "wanted"),
    [
        (["null", "string"], "string"),
        (["int", "long"], "bigint"),
        (["null", "float", "double"], "double"),
        (["int", "null", "string"], "struct<member0:int,member1:string>"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "fixed", "name": "F", "size": 2}, "binary"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp_ntz"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "int", "logicalType": "time-millis"}, "int"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        ({"type": "map", "values": ["null", "int"]}, "map<string,int>"),
        (confluent.DECIMAL, "decimal(9,2)"),
    ],
)
def test_avros_types_are_those_of_from_avro(kind: Any, wanted: str) -> None:
    assert avro_type(kind) == wanted


def test_a_type_within_itself_has_no_column() -> None:
    text = '{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}'
    with pytest.raises(SchemaError, match="R contains itself"):
        avro_columns.shape(Resolved(Schema(text)))
    text = 'syntax = "proto3"; message M { M m = 1; }'
    with pytest.raises(SchemaError, match="M contains itself"):
        protobuf_columns.shape(Resolved(Schema(text, "PROTOBUF")))
    text = '{"type": "object", "properties": {"next": {"$ref": "#"}}}'
    with pytest.raises(SchemaError, match="contains itself"):
        json_columns.shape(Resolved(Schema(text, "JSON")))


def test_unions_of_avro_say_which_member_a_value_is() -> None:
    a = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}
    b = {"type": "record", "name": "B", "fields": [{"name": "y", "type": "bytes"}]}
    union = Resolved(Schema(json.dumps(["null", a, b, "string", "boolean", "long"])))
    column = avro_columns.shape(union)
    write = avro_columns.writer(union, column.type)
    read_one = avro_columns.read_with(union, union)
    members: list[Any] = [{"x": 1}, {"y": b"\xff"}, "s", True, 7]
    for index, value in enumerate(members):
        given = {f"member{n}": value if n == index else None for n in range(5)}
        assert read_one(write(given)) == {f"member{index}": value}
    assert read_one(write(None)) is None


@for_each(
    ("schema", "wanted"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": ["null", "number"]}, "double"),
        ({"enum": ["a", "b", None]}, "string"),
        ({"const": 3}, "bigint"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "string"),
        ({"type": "object"}, "string"),
        ({"type": "array"}, "string"),
        ({"type": "array", "items": {"type": "boolean"}}, "array<boolean>"),
        (True, "string"),
    ],
)
def test_json_schemas_types(schema: Any, wanted: str) -> None:
    found = json_columns.shape(Resolved(Schema(json.dumps(schema), "JSON")))
    assert found.type.simpleString() == wanted


def test_json_keeps_as_text_what_has_no_type_and_refuses_what_has_another() -> None:
    schema = {"type": "object", "properties": {"any": {}, "n": {"type": "integer"}}}
    schema["allOf"] = [{"properties": {"more": {"type": "number"}}}]  # type: ignore[assignment]
    read_one = json_columns.read_with(Resolved(Schema(json.dumps(schema), "JSON")))
    assert read_one(b'{"any": [1, {"x": null}], "n": 2.0, "other": 1, "more": 1}') == {
        "any": '[1,{"x":null}]',
        "n": 2,
        "more": 1.0,
    }
    for bad in (
        *(b'{"n": "2"}', b'{"n": true}', b'{"n": 9223372036854775808}', b"[]", b"{"),
        *(b'{"n": 1, "n": 2}', b'{"n": 1} x', b'{"n": 1.5}', b'{"n": 1e999999999}'),
        *(b'{"more": 1e400}', b'{"more": NaN}', b'{"any": "\\ud800"}', b'{"any": "\xff"}'),
    ):
        with pytest.raises(ValueError):
            read_one(bad)
    exact = b'{"any":{"b":1.10,"a":0.12345678901234567890},"n":12345678901234567.0}'
    assert read_one(exact) == {
        "any": '{"b":1.10,"a":0.12345678901234567890}',
        "n": 12345678901234567,
    }


def test_a_number_of_json_is_no_text() -> None:
    schema = {"type": "object", "properties": {"s": {"type": "string"}}}
    read_one = json_columns.read_with(Resolved(Schema(json.dumps(schema), "JSON")))
    with pytest.raises(ValueError):
        read_one(b'{"s": 1.5}')


@for_each(
    ("options", "message"),
    [
        ({"value.format": "xml"}, r"value\.format must be avro, json, protobuf, not 'xml'"),
        ({"value.fromat": "avro"}, r"value\.fromat is not an option; did you mean value\.format"),
        ({"value.schema.id": "1"}, r"has no effect without value\.format"),
        ({"schema.on.error": "null"}, r"has no effect without value\.format or key\.format"),
        ({"value.format": "avro"}, r"schema\.registry\.url must be given"),
        ({"value.format": "avro", "auto.register.schemas": "true"}, "is an option of the sink"),
        ({"value.format": "avro", "value.schema.version": "0"}, "must be a whole number from 1"),
        (
            {"value.format": "avro", "value.schema.version": "1", "value.schema.id": "2"},
            "cannot be combined",
        ),
        ({"value.format": "avro", "value.subject.name.strategy": "x"}, "TopicNameStrategy"),
    ],
)
def test_options_that_are_wrong(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        split_options(options, environ={})


def test_options_that_are_right() -> None:
    rest, found = split_options(
        {
            "Value.Format": "Avro",
            "value.subject.name.strategy": "io.confluent.kafka.serializers.RecordNameStrategy",
            "kafka.bootstrap.servers": "x:1",
            "subscribe": "t",
        },
        environ={"PK_SCHEMA_REGISTRY": "http://r:1", "PK_SCHEMA_REGISTRY_USER": "a:b:c"},
    )
    assert rest == {"kafka.bootstrap.servers": "x:1", "subscribe": "t"}
    assert found is not None and found.columns["value"].strategy == "record"
    assert (found.registry.where, found.registry.user, found.registry.password) == (
        "http://r:1",
        "a",
        "b:c",
    )
    assert "b:c" not in repr(found)


def test_several_topics_need_a_subject(served: Running) -> None:
    given = {"schema.registry.url": served.url, "value.format": "avro", **BROKER}
    with pytest.raises(OptionError, match=r"value\.schema\.subject must be given: several topics"):
        reading_of({**given, "subscribe": "a,b"}).choose()
    with pytest.raises(OptionError, match="a pattern selects the topics"):
        reading_of({**given, "subscribePattern": "a.*"}).choose()
    data, wanted = confluent.avro(served.url, "first")
    given |= {"subscribe": "a,b"}
    given |= {"value.schema.subject": "first-value, none-value"}
    assert values(read(served.url, "a", data, given)) == wanted


def test_times_of_day_are_numbers() -> None:
    kind = {"type": "long", "logicalType": "time-micros"}
    schema = Resolved(Schema(json.dumps(kind)))
    read_one = avro_columns.read_with(schema, schema)
    moment = datetime.time(1, 2, 3, 4)
    assert read_one(avro_columns.writer(schema, t.LongType())(3_723_000_004)) == 3_723_000_004
    assert moment.microsecond == 4


def test_headers_name_schemas(served: Running) -> None:
    before, wanted = confluent.avro(served.url, "named")
    bare, named = confluent.in_headers(served.url, "named")
    assert [len(each) for each in bare] == [len(each) - 5 for each in before]
    headers: list[Any] = [None, [], [("other", b"x"), ("__key_schema_id", b"y")]]
    headers += [[("__key_schema_id", b"z"), *each, ("__value_schema_id", b"2")] for each in named]
    options = {"schema.registry.url": served.url, "subscribe": "named", **BROKER, **AVRO}
    reading = reading_of(options)
    schema = typed(reading, headers=False)
    whole = with_headers("named", [*before, *bare], headers)
    for at, count in ((0, 6), (2, 4), (4, 1)):
        [found] = reading.rows([whole.slice(at, count)], reading.written(), schema)
        rows = found.to_pylist(maps_as_pydicts="strict")
        assert values(rows) == [*wanted, *wanted][at : at + count]


def test_a_header_names_the_message_of_protobuf(served: Running) -> None:
    bare, named, wanted = confluent.protobuf_in_headers(served.url, "message")
    options = {"schema.registry.url": served.url, "subscribe": "message", **BROKER}
    options |= {"value.format": "protobuf", "value.schema.name": "Second"}
    reading = reading_of(options)
    schema = typed(reading, headers=False)
    batch = with_headers("message", [bare], [named])
    [found] = reading.rows([batch], reading.written(), schema)
    assert values(found.to_pylist()) == [wanted]


def test_a_header_that_names_no_schema(served: Running) -> None:
    bare, _ = confluent.in_headers(served.url, "nothing")
    options = {"schema.registry.url": served.url, "subscribe": "nothing", **BROKER, **AVRO}
    reading = reading_of({**options, "schema.on.error": "null"})
    schema = typed(reading, headers=False)
    batch = with_headers("nothing", bare[:1], [[("__value_schema_id", b"\x02")]])
    [found] = reading.rows([batch], reading.written(), schema)
    [error] = found["value_error"].to_pylist()
    assert error["message"].startswith("the first byte is 2") and error["bytes"] == bare[0]
