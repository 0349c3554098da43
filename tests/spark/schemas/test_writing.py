"""Columns of a sink with schemas: what tasks encode, Confluent's deserializers read."""

from __future__ import annotations

import datetime
import json
import math
import pickle
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import confluent_records as confluent
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from google.protobuf import message_factory
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema
from schemas.running import Running, running_registry

from pk.core.schemas.protobuf.descriptors import load
from pk.core.schemas.schema import Schema, SchemaError
from pk.net.schemas.blocking import Schemas
from pk.spark.errors import OptionError
from pk.spark.schemas.options import split_options
from pk.spark.schemas.writing import Unencodable, encoded, encoders

INNER = t.StructType([t.StructField("sku", t.StringType())])
ORDER = t.StructType(
    [
        t.StructField("id", t.LongType()),
        t.StructField("item", t.StringType()),
        t.StructField("at", t.TimestampType()),
        t.StructField("lines", t.ArrayType(INNER)),
        t.StructField("tags", t.MapType(t.StringType(), t.IntegerType())),
    ]
)
ROWS: list[dict[str, Any] | None] = [
    {"id": 1, "item": "rope", "at": confluent.NOW, "lines": [{"sku": "a"}], "tags": [("x", 1)]},
    {"id": 2, "item": None, "at": None, "lines": [], "tags": []},
    None,
]


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running_registry() as found:
        yield found


def write(
    where: str, topic: str | None, kind: t.DataType, values: list[Any], **options: str
) -> list[bytes | None]:
    """A column of values as a task writes it."""
    given = {name.replace("_", "."): value for name, value in options.items()}
    _, parsed = split_options({"schema.registry.url": where, **given}, sink=True)
    assert parsed is not None
    rows = t.StructType([t.StructField("value", kind)])
    made = pickle.loads(pickle.dumps(encoders(parsed, rows, topic)))
    schema = to_arrow_schema(rows, timezone="UTC")
    batch = pa.RecordBatch.from_arrays([pa.array(values, schema.field(0).type)], schema=schema)
    [found] = encoded([batch], made)
    return found["value"].to_pylist()


def test_avro_of_the_columns_is_registered_and_read_by_confluent(served: Running) -> None:
    options = {"value.format": "avro", "auto.register.schemas": "true"}
    data = write(served.url, "orders", ORDER, ROWS, **options)
    assert data.pop() is None
    with SchemaRegistryClient({"url": served.url}) as client:
        read: Any = cast(Any, AvroDeserializer)(client)
        found = [read(each, confluent.context("orders")) for each in data]
    assert found == [
        {**cast(Any, ROWS[0]), "tags": {"x": 1}},
        {**cast(Any, ROWS[1]), "tags": {}},
    ]
    again = write(served.url, "orders", ORDER, ROWS[:1], **options)
    assert again[0] == data[0], "the same schema is the same version"
    assert Schemas(served.url).versions("orders-value") == [1]


def test_json_schema_of_the_columns(served: Running) -> None:
    options = {"value.format": "json", "auto.register.schemas": "true"}
    data = write(served.url, "json-orders", ORDER, ROWS, **options)
    with SchemaRegistryClient({"url": served.url}) as client:
        read: Any = cast(Any, JSONDeserializer)(None, schema_registry_client=client)
        found = [read(each, confluent.context("json-orders")) for each in data[:2]]
    at = confluent.NOW.isoformat()
    assert found[0] == {**cast(Any, ROWS[0]), "at": at, "tags": {"x": 1}}
    assert found[1] == {"id": 2, "lines": [], "tags": {}}
    # A column that is added is a version that may follow.
    more = t.StructType([*ORDER.fields, t.StructField("more", t.StringType())])
    write(served.url, "json-orders", more, [{**cast(Any, ROWS[0]), "more": "x"}], **options)
    assert Schemas(served.url).versions("json-orders-value") == [1, 2]


def test_protobuf_of_the_columns(served: Running) -> None:
    options = {"value.format": "protobuf", "auto.register.schemas": "true"}
    data = write(served.url, "proto-orders", ORDER, ROWS, **options)
    text = Schemas(served.url).of_subject("proto-orders-value")[1].text
    kind: Any = message_factory.GetMessageClass(load(text).message((0,)))
    with SchemaRegistryClient({"url": served.url}) as client:
        read: Any = cast(Any, ProtobufDeserializer)(kind, {"use.deprecated.format": False}, client)
        found = [read(each, confluent.context("proto-orders")) for each in data[:2]]
    assert type(found[0]).DESCRIPTOR.full_name == "ProtoOrders"
    assert (found[0].id, found[0].item, dict(found[0].tags)) == (1, "rope", {"x": 1})
    assert found[0].at.ToDatetime(datetime.UTC) == confluent.NOW
    assert [each.sku for each in found[0].lines] == ["a"]
    assert found[1].id == 2 and not found[1].HasField("item") and not found[1].HasField("at")
    # A field's number stays when columns come in another order.
    other = t.StructType([t.StructField("item", t.StringType()), t.StructField("id", t.LongType())])
    [more] = write(served.url, "proto-orders", other, [{"item": "x", "id": 7}], **options)
    assert Schemas(served.url).versions("proto-orders-value") == [1]
    with SchemaRegistryClient({"url": served.url}) as client:
        again: Any = cast(Any, ProtobufDeserializer)(kind, {"use.deprecated.format": False}, client)
        assert again(more, confluent.context("proto-orders")).id == 7


def test_what_confluent_wrote_is_written_back_alike(served: Running) -> None:
    """With a subject's latest schema the bytes are equal, because Avro has a single encoding."""
    data, wanted = confluent.avro(served.url, "back")
    fields = {"id": t.LongType(), "item": t.StringType(), "price": t.DecimalType(9, 2)}
    more = {"at": t.TimestampType(), "raw": t.BinaryType(), "lines": t.ArrayType(INNER)}
    tags = {"tags": t.MapType(t.StringType(), t.IntegerType())}
    kind = t.StructType([t.StructField(*each) for each in (fields | more | tags).items()])
    rows = [{**each, "tags": list(each["tags"].items())} for each in wanted]
    found = write(served.url, "back", kind, rows, value_format="avro")
    assert found[2] == data[2]
    with SchemaRegistryClient({"url": served.url}) as client:
        read: Any = cast(Any, AvroDeserializer)(client)
        assert [read(each, confluent.context("back")) for each in found] == wanted


def test_text_is_json_of_the_schema(served: Running) -> None:
    data, _ = confluent.protobuf(served.url, "text")
    options = {"value.format": "protobuf", "value.schema.name": "Order"}
    texts = ['{"id": 1, "color": "RED"}', None]
    found = write(served.url, "text", t.StringType(), texts, **options)
    assert found[1] is None and found[0] is not None
    assert found[0][:7] == data[2][:7], "the id of the latest, and the message's place"
    with pytest.raises(Unencodable, match="a row's value cannot be encoded"):
        write(served.url, "text", t.StringType(), ['{"nope": 1}'], **options)


def test_keys_and_plain_types(tmp_path: Path) -> None:
    Schemas(str(tmp_path)).register("k-value", Schema('"string"'))
    found = write(str(tmp_path), "k", t.StringType(), ["a"], value_format="avro")
    assert found == [b"\0\0\0\0\1\x02a"]


@pytest.mark.parametrize(
    ("options", "topic", "subject"),
    [
        ({}, "t", "t-value"),
        ({"value.schema.subject": "mine"}, None, "mine"),
        ({"value.subject.name.strategy": "RecordNameStrategy"}, None, "shop.R"),
        ({"value.subject.name.strategy": "TopicRecordNameStrategy"}, "t", "t-shop.R"),
    ],
)
def test_subjects(tmp_path: Path, options: dict[str, str], topic: str | None, subject: str) -> None:
    given = {"value.format": "avro", "auto.register.schemas": "true", **options}
    if "strategy" in str(options):
        given["value.schema.name"] = "shop.R"
    kind = t.StructType([t.StructField("a", t.IntegerType())])
    write(str(tmp_path), topic, kind, [{"a": 1}], **given)
    assert [each.name for each in tmp_path.iterdir()] == [subject]


def order(**fields: Any) -> Schema:
    named = [{"name": name, "type": each} for name, each in fields.items()]
    return Schema(json.dumps({"type": "record", "name": "R", "fields": named}))


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        (t.StructType([t.StructField("b", t.LongType())]), SchemaError, "a field b, which R lacks"),
        (t.StructType([]), SchemaError, "lacks the field a, which has no default"),
        (
            t.StructType([t.StructField("a", t.LongType())]),
            SchemaError,
            "a is bigint, but the schema has int",
        ),
    ],
)
def test_columns_that_do_not_fit_fail_before_a_row_is_written(
    tmp_path: Path, kind: t.DataType, error: type[Exception], message: str
) -> None:
    Schemas(str(tmp_path)).register("t-value", order(a="int"))
    with pytest.raises(error, match=message):
        write(str(tmp_path), "t", kind, [], value_format="avro")


def test_rows_that_do_not_fit_fail(tmp_path: Path) -> None:
    Schemas(str(tmp_path)).register("t-value", order(a="int"))
    kind = t.StructType([t.StructField("a", t.IntegerType())])
    with pytest.raises(Unencodable, match="a row's value cannot be encoded"):
        write(str(tmp_path), "t", kind, [{"a": None}], value_format="avro")
    limits = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 3}}}
    Schemas(str(tmp_path)).register("j-value", Schema(json.dumps(limits), "JSON"))
    with pytest.raises(Unencodable, match="greater than the maximum"):
        write(str(tmp_path), "j", kind, [{"a": 4}], value_format="json")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    kind = t.StructType([t.StructField("a", t.DecimalType(5, 1))])
    with pytest.raises(OptionError, match=r"no subject t-value; auto\.register\.schemas=true"):
        write(str(tmp_path), "t", kind, [], value_format="avro")
    with pytest.raises(OptionError, match=r"value\.schema\.subject must be given: without the op"):
        write(str(tmp_path), None, kind, [], value_format="avro")
    options = {"value.format": "protobuf", "auto.register.schemas": "true"}
    with pytest.raises(SchemaError, match=r"protobuf has no type for decimal\(5,1\)"):
        write(str(tmp_path), "t", kind, [], **options)
    options = {"value.format": "json", "auto.register.schemas": "true"}
    [found] = write(str(tmp_path), "t", kind, [{"a": Decimal("1.5")}], **options)
    assert found is not None and found[5:] == b'{"a":1.5}'


def test_numbers_of_json_schema_have_all_their_digits(tmp_path: Path) -> None:
    options = {"value.format": "json", "auto.register.schemas": "true"}
    decimals = t.StructType(
        [
            t.StructField("a", t.DecimalType(38, 20)),
            t.StructField("b", t.ArrayType(t.DecimalType(38, 20))),
            t.StructField("c", t.MapType(t.StringType(), t.DecimalType(38, 20))),
        ]
    )
    texts = ("123456789012345678.12345678901234567890", "0.1", "7", "-0.00000000000000000001")
    for text in texts:
        number = Decimal(text)
        row = {"a": number, "b": [number], "c": [("k", number)]}
        [found] = write(str(tmp_path), "t", decimals, [row], **options)
        assert found is not None
        read = json.loads(found[5:], parse_float=Decimal, parse_int=Decimal)
        assert read == {"a": number, "b": [number], "c": {"k": number}}
    floats = t.StructType([t.StructField("f", t.DoubleType())])
    for value in (math.nan, math.inf):
        with pytest.raises(Unencodable, match="JSON has no number"):
            write(str(tmp_path), "f", floats, [{"f": value}], **options)


def test_text_is_written_as_it_is_if_it_fits(tmp_path: Path) -> None:
    limits = {"type": "object", "properties": {"a": {"type": "number", "maximum": 3}}}
    Schemas(str(tmp_path)).register("j-value", Schema(json.dumps(limits), "JSON"))
    text = '{"a" : 1.10, "b":[1e400, 0.12345678901234567890]}'
    [found] = write(str(tmp_path), "j", t.StringType(), [text], value_format="json")
    assert found is not None and found[5:] == text.encode()
    for bad in ('{"a": 4}', '{"a": NaN}', '{"a": 1, "a": 2}', '{"a": 1} x', '"a"'):
        with pytest.raises(Unencodable):
            write(str(tmp_path), "j", t.StringType(), [bad], value_format="json")
