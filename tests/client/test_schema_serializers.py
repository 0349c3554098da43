"""Serializers and deserializers with a registry's schemas, beside Confluent's."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from clients.fixtures import fresh_name
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import header_schema_id_serializer as id_in_header
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import message_factory
from schemas.running import Running, running_registry

from pk.client import (
    NewTopic,
    Reference,
    RegistryError,
    RegistryUnreachable,
    Schema,
    SchemaDeserializer,
    Schemas,
    SchemaSerializer,
    TopicPartition,
    TypedConsumer,
    TypedProducer,
    UndecodableRecord,
    UnfitValue,
    aio,
    blocking,
    open_consumer,
    open_producer,
)
from pk.core.schemas.protobuf.descriptors import load
from pk.net.client.typed import LoadingDeserializer, LoadingSerializer, NotLoaded, RecordHeaders

Fresh = Callable[[str], str]

EARLIEST = {"auto.offset.reset": "earliest"}


@pytest.fixture(scope="module", params=["pk", pytest.param("apache", marks=pytest.mark.peer)])
def registry(request: pytest.FixtureRequest) -> Iterator[Running]:
    """A registry of pk beside a broker of pk, then (mark `peer`) on Apache Kafka."""
    more: dict[str, Any] = {}
    if request.param == "apache":
        more["bootstrap"] = request.getfixturevalue("apache").bootstrap
        more["topic"] = more["group"] = fresh_name("schemas")
    with running_registry(**more) as found:
        yield found


@pytest.fixture
def schemas(registry: Running) -> Schemas:
    return Schemas(registry.url)


@pytest.fixture
def confluent(registry: Running) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as found:
        yield found


@dataclass
class Order:
    item: str
    price: int


AVRO_TEXT = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "item", "type": "string"}, {"name": "price", "type": "int"}],
    }
)
JSON_TEXT = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {"item": {"type": "string"}, "price": {"type": "integer"}},
        "required": ["item", "price"],
    }
)
PROTO_TEXT = """syntax = "proto3";
message Other { string x = 1; }
message Order { string item = 1; int32 price = 2; }
"""
TEXTS = {"AVRO": AVRO_TEXT, "JSON": JSON_TEXT, "PROTOBUF": PROTO_TEXT}


def write(
    serializer: LoadingSerializer[Any], topic: str, value: Any, *, is_key: bool = False
) -> tuple[bytes, tuple[str, bytes] | None]:
    """Serialize, after loading once if needed."""
    try:
        return serializer.serialize(topic, is_key, value)
    except NotLoaded as needed:
        needed.load()
    return serializer.serialize(topic, is_key, value)


def read(deserializer: LoadingDeserializer[Any], data: bytes, headers: RecordHeaders = ()) -> Any:
    """Deserialize a value, after loading once if needed."""
    try:
        return deserializer.deserialize(data, False, headers)
    except NotLoaded as needed:
        needed.load()
    return deserializer.deserialize(data, False, headers)


@cache
def message_class() -> Any:
    file = load(PROTO_TEXT)
    return message_factory.GetMessageClass(file.message(file.indexes_of("Order")))


def confluent_reader(kind: str, client: SchemaRegistryClient) -> Callable[..., Any]:
    if kind == "AVRO":
        return cast(Any, AvroDeserializer)(client)
    if kind == "JSON":
        return cast(Any, JSONDeserializer)(JSON_TEXT, schema_registry_client=client)
    parse = cast(Any, ProtobufDeserializer)(
        message_class(), {"use.deprecated.format": False}, client
    )

    def as_dict(data: bytes, context: SerializationContext) -> dict[str, Any]:
        found: Any = parse(data, context)
        return {"item": found.item, "price": found.price}

    return as_dict


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("in_header", [False, True])
def test_confluents_deserializers_read_what_is_written(
    schemas: Schemas, confluent: SchemaRegistryClient, fresh: Fresh, kind: str, in_header: bool
) -> None:
    topic = fresh("serde")
    serializer = SchemaSerializer(
        schemas,
        Schema(TEXTS[kind], kind),
        to_value=asdict,
        message="Order" if kind == "PROTOBUF" else None,
        in_header=in_header,
    )
    data, header = write(serializer, topic, Order("green tea", 3))
    assert (header is not None) == in_header
    headers: Any = [] if header is None else [header]
    context = SerializationContext(topic, MessageField.VALUE, headers)
    assert confluent_reader(kind, confluent)(data, context) == {"item": "green tea", "price": 3}
    back = SchemaDeserializer(schemas, from_value=lambda found: Order(**found))
    assert read(back, data, tuple(headers)) == Order("green tea", 3)
    assert confluent.get_subjects() and f"{topic}-value" in confluent.get_subjects()


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("in_header", [False, True])
def test_what_confluents_serializers_write_is_read(
    schemas: Schemas, confluent: SchemaRegistryClient, fresh: Fresh, kind: str, in_header: bool
) -> None:
    topic = fresh("serde")
    config: dict[str, Any] = {"schema.id.serializer": id_in_header} if in_header else {}
    value: Any = {"item": "green tea", "price": 3}
    if kind == "AVRO":
        serializer: Any = cast(Any, AvroSerializer)(confluent, AVRO_TEXT, conf=config)
    elif kind == "JSON":
        serializer = cast(Any, JSONSerializer)(JSON_TEXT, confluent, conf=config)
    else:
        serializer = cast(Any, ProtobufSerializer)(
            message_class(), confluent, {"use.deprecated.format": False, **config}
        )
        value = message_class()(**value)
    headers: list[Any] = []
    data = serializer(value, SerializationContext(topic, MessageField.VALUE, headers))
    assert bool(headers) == in_header
    assert read(SchemaDeserializer(schemas), data, tuple(headers)) == {
        "item": "green tea",
        "price": 3,
    }


@pytest.mark.parametrize("by_descriptor", [False, True])
def test_payloads_of_generated_classes(schemas: Schemas, fresh: Fresh, by_descriptor: bool) -> None:
    kind = message_class()
    descriptor = b64encode(kind.DESCRIPTOR.file.serialized_pb).decode()
    serializer = SchemaSerializer(
        schemas,
        Schema(descriptor if by_descriptor else PROTO_TEXT, "PROTOBUF"),
        to_payload=kind.SerializeToString,
        message="Order",
    )
    data, _ = write(serializer, fresh("serde"), kind(item="green tea", price=3))
    found = read(SchemaDeserializer(schemas, from_payload=kind.FromString), data)
    assert (found.item, found.price) == ("green tea", 3)


def test_avro_values_are_those_of_python(schemas: Schemas, fresh: Fresh) -> None:
    kinds: dict[str, Any] = {
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "day": {"type": "int", "logicalType": "date"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        "raw": "bytes",
    }
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    value = {
        "at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "day": datetime.date(2026, 1, 2),
        "price": decimal.Decimal("12.34"),
        "raw": b"\0\xff",
    }
    data, _ = write(SchemaSerializer(schemas, Schema(text)), fresh("serde"), value)
    assert read(SchemaDeserializer(schemas), data) == value


def test_an_avro_reader_has_a_schema_of_its_own(schemas: Schemas, fresh: Fresh) -> None:
    data, _ = write(
        SchemaSerializer(schemas, Schema(AVRO_TEXT)),
        fresh("serde"),
        {"item": "green tea", "price": 3},
    )
    fields = [
        {"name": "item", "type": "string"},
        {"name": "color", "type": "string", "default": "green"},
    ]
    wanted = Schema(json.dumps({"type": "record", "name": "Order", "fields": fields}))
    assert read(SchemaDeserializer(schemas, schema=wanted), data) == {
        "item": "green tea",
        "color": "green",
    }
    data, _ = write(
        SchemaSerializer(schemas, Schema(JSON_TEXT, "JSON")),
        fresh("serde"),
        {"item": "green tea", "price": 3},
    )
    with pytest.raises(UnfitValue, match="written as JSON"):
        read(SchemaDeserializer(schemas, schema=wanted), data)


def test_references(schemas: Schemas, fresh: Fresh) -> None:
    money = json.dumps(
        {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "int"}]}
    )
    subject = fresh("money")
    schemas.register(subject, Schema(money))
    order = json.dumps(
        {"type": "record", "name": "Priced", "fields": [{"name": "price", "type": "Money"}]}
    )
    schema = Schema(order, "AVRO", (Reference("Money", subject, 1),))
    value = {"price": {"cents": 3}}
    data, _ = write(SchemaSerializer(schemas, schema), fresh("serde"), value)
    assert read(SchemaDeserializer(schemas), data) == value


def test_subjects(schemas: Schemas, fresh: Fresh) -> None:
    topic = fresh("serde")
    schema = Schema(AVRO_TEXT)
    value = {"item": "green tea", "price": 3}
    write(SchemaSerializer(schemas, schema), topic, value, is_key=True)
    write(SchemaSerializer(schemas, schema, subject="record"), topic, value)
    write(SchemaSerializer(schemas, schema, subject="topic-record"), topic, value)
    write(SchemaSerializer(schemas, schema, subject=lambda *_: f"{topic}-mine"), topic, value)
    for subject in (f"{topic}-key", "Order", f"{topic}-Order", f"{topic}-mine"):
        assert schemas.versions(subject) == [1]


def test_a_registered_version_is_used_and_nothing_registered(
    schemas: Schemas, fresh: Fresh
) -> None:
    topic = fresh("serde")
    with pytest.raises(RegistryError, match="not found"):
        write(SchemaSerializer(schemas), topic, {"item": "green tea", "price": 3})
    first = schemas.register(f"{topic}-value", Schema(AVRO_TEXT))
    wider = json.loads(AVRO_TEXT)
    wider["fields"].append({"name": "note", "type": "string", "default": ""})
    second = schemas.register(f"{topic}-value", Schema(json.dumps(wider)))
    value = {"item": "green tea", "price": 3, "note": "hot"}
    for version, schema_id in ((-1, second), (2, second), (1, first)):
        data, _ = write(SchemaSerializer(schemas, version=version), topic, value)
        assert int.from_bytes(data[1:5], "big") == schema_id
    assert schemas.versions(f"{topic}-value") == [1, 2]


def test_values_that_do_not_fit(schemas: Schemas, fresh: Fresh) -> None:
    for kind, text in TEXTS.items():
        serializer = SchemaSerializer(schemas, Schema(text, kind), message=None)
        with pytest.raises(UnfitValue):
            write(serializer, fresh("serde"), {"price": "much"})


def test_a_directory_is_a_registry_too(tmp_path: Path) -> None:
    schemas = Schemas(str(tmp_path))
    data, _ = write(
        SchemaSerializer(schemas, Schema(AVRO_TEXT)), "orders", {"item": "green tea", "price": 3}
    )
    assert read(SchemaDeserializer(schemas), data) == {"item": "green tea", "price": 3}
    assert (tmp_path / "orders-value").is_dir()


class Counting(Schemas):
    """Counts the questions."""

    asked = 0

    def by_id(self, wanted: Any) -> Any:
        self.asked += 1
        return super().by_id(wanted)

    def register(self, subject: str, schema: Schema) -> int:
        self.asked += 1
        return super().register(subject, schema)


def create(registry: Running, topic: str) -> None:
    with blocking.open_admin(registry.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1)]).value(topic)


SENT = [{"item": "green tea", "price": n} for n in range(20)]


@pytest.mark.parametrize("in_header", [False, True])
def test_records_through_a_broker_on_trio(registry: Running, fresh: Fresh, in_header: bool) -> None:
    """The registry is asked once for each schema."""
    topic = fresh("serde")
    create(registry, topic)
    writing, reading = Counting(registry.url), Counting(registry.url)

    async def main() -> None:
        serializer = SchemaSerializer(writing, Schema(AVRO_TEXT), in_header=in_header)
        async with open_producer(registry.bootstrap) as plain:
            producer = TypedProducer(plain, key=str.encode, value=serializer)
            for value in SENT:
                await producer.send(topic, value, headers=[("mine", b"1")])
            await producer.send(topic, None, key="gone")
        async with open_consumer(registry.bootstrap, EARLIEST) as plain:
            plain.assign([TopicPartition(topic, 0)])
            deserializer = SchemaDeserializer(reading)
            consumer = TypedConsumer(plain, key=bytes.decode, value=deserializer)
            found: list[Any] = []
            async for record in consumer:
                assert record.value is None or record.headers[0] == ("mine", b"1")
                found.append(record.value)
                if len(found) > len(SENT):
                    break
            assert found == [*SENT, None]

    trio.run(main)
    assert (writing.asked, reading.asked) == (1 + in_header, 1)


def test_records_through_a_broker_on_asyncio(registry: Running, fresh: Fresh) -> None:
    topic = fresh("serde")
    create(registry, topic)
    schemas = Counting(registry.url)

    async def main() -> None:
        serializer = SchemaSerializer(schemas, Schema(AVRO_TEXT))
        async with aio.open_producer(registry.bootstrap) as plain:
            producer = aio.TypedProducer(plain, key=bytes, value=serializer)
            await asyncio.gather(*(producer.send(topic, value) for value in SENT))
        async with aio.open_consumer(registry.bootstrap, EARLIEST) as plain:
            plain.assign([TopicPartition(topic, 0)])
            consumer = aio.TypedConsumer(plain, key=bytes, value=SchemaDeserializer(schemas))
            found: list[Any] = []
            while len(found) < len(SENT):
                found += [record.value for record in await consumer.poll()]
            assert sorted(found, key=lambda value: value["price"]) == SENT

    asyncio.run(main())
    assert schemas.asked == 2


def test_records_through_a_broker_blocking(registry: Running, fresh: Fresh) -> None:
    topic = fresh("serde")
    create(registry, topic)
    schemas = Schemas(registry.url)
    with blocking.open_producer(registry.bootstrap) as plain:
        serializer = SchemaSerializer(schemas, Schema(AVRO_TEXT), to_value=asdict)
        producer = blocking.TypedProducer(plain, key=str.encode, value=serializer)
        producer.send(topic, Order("green tea", 3))
        plain.flush()
        unknown = b"\0\0\x0f\xff\xff"
        plain.send_many(topic, [(None, unknown), (None, b"plain text")]).result()
        producer.send(topic, Order("milk", 1))
    with blocking.open_consumer(registry.bootstrap, EARLIEST) as plain:
        plain.assign([TopicPartition(topic, 0)])
        deserializer = SchemaDeserializer(schemas, from_value=lambda found: Order(**found))
        bad: list[UndecodableRecord] = []
        consumer = blocking.TypedConsumer(
            plain, key=bytes.decode, value=deserializer, on_undecodable=bad.append
        )
        found: list[Order | None] = []
        while len(found) < 2:
            found += [record.value for record in consumer.poll()]
        assert found == [Order("green tea", 3), Order("milk", 1)]
        assert [error.record.offset for error in bad] == [1, 2]
        assert "Schema 1048575 not found" in str(bad[0])
        assert "not written with a schema id" in str(bad[1])


def test_a_registry_that_does_not_answer_costs_no_record(registry: Running, fresh: Fresh) -> None:
    """`on_undecodable` is for bytes that cannot be read, not for those that wait for a schema."""
    topic = fresh("serde")
    create(registry, topic)
    away = Schemas("http://127.0.0.1:1")
    with blocking.open_producer(registry.bootstrap) as plain:
        serializer = SchemaSerializer(away, Schema(AVRO_TEXT))
        producer = blocking.TypedProducer(plain, key=bytes, value=serializer)
        with pytest.raises(RegistryUnreachable):
            producer.send(topic, SENT[0])
        there = SchemaSerializer(Schemas(registry.url), Schema(AVRO_TEXT))
        blocking.TypedProducer(plain, key=bytes, value=there).send(topic, SENT[0])
    bad: list[UndecodableRecord] = []
    with blocking.open_consumer(registry.bootstrap, EARLIEST) as plain:
        plain.assign([TopicPartition(topic, 0)])
        lost = blocking.TypedConsumer(
            plain, key=bytes, value=SchemaDeserializer(away), on_undecodable=bad.append
        )
        with pytest.raises(RegistryUnreachable):
            lost.poll()
        back = SchemaDeserializer(Schemas(registry.url))
        consumer = blocking.TypedConsumer(plain, key=bytes, value=back)
        assert [record.value for record in consumer.poll()] == [SENT[0]]
    assert bad == []
