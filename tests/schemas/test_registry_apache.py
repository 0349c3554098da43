"""`pk schema-registry start` on Apache Kafka: Confluent's client and serializers, with records that
pass through Apache's broker, and a registry that starts again from its topic."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from clients.fixtures import Kafka
from clients.pk_broker import running
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format, message_factory
from schemas.test_confluent_client import B_OPTIONAL, PROTO, A, B, avro, refusal

from pk.core.schemas.protobuf.descriptors import load

pytestmark = pytest.mark.peer

JSON_SCHEMA = json.dumps(
    {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
)


@contextmanager
def registry(apache: Kafka, name: str) -> Iterator[SchemaRegistryClient]:
    """A registry, a process of its own, with its topic and group on Apache Kafka."""
    words = ("schema-registry", "start", "-b", apache.bootstrap, "--port", "0", "-t", name)
    with running(*words, "-g", name) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = re.fullmatch(r"Schema registry is ready after \d+ ms, at (\S+)\n", line)
        assert url is not None, line
        with SchemaRegistryClient({"url": url[1]}) as client:
            yield client
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def through(apache: Kafka, topic: str, value: bytes) -> bytes:
    """The value as a consumer gets it from Apache's broker."""
    producer = Producer({"bootstrap.servers": apache.bootstrap})
    producer.produce(topic, value)
    assert producer.flush(60) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": apache.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "allow.auto.create.topics": True,
        }
    )
    consumer.subscribe([topic])
    try:
        while True:
            record = consumer.poll(60)
            assert record is not None, "no record within 60 s"
            if record.error() is None:
                found = record.value()
                assert isinstance(found, bytes)
                return found
    finally:
        consumer.close()


def test_serializers_with_records_on_apache_kafka(
    apache: Kafka, fresh: Callable[[str], str]
) -> None:
    with registry(apache, fresh("schemas")) as client:
        topic = fresh("avro")
        at = SerializationContext(topic, MessageField.VALUE)
        order = {"a": 7, "b": "seven"}
        data = cast(Any, AvroSerializer)(client, avro(A, B).schema_str)(order, at)
        assert cast(Any, AvroDeserializer)(client)(through(apache, topic, data), at) == order

        topic = fresh("json")
        at = SerializationContext(topic, MessageField.VALUE)
        data = cast(Any, JSONSerializer)(JSON_SCHEMA, client)({"id": 1}, at)
        read: Any = cast(Any, JSONDeserializer)(None, schema_registry_client=client)
        assert read(through(apache, topic, data), at) == {"id": 1}

        topic = fresh("protobuf")
        at = SerializationContext(topic, MessageField.VALUE)
        file = load(PROTO)
        kind: Any = message_factory.GetMessageClass(file.message(file.indexes_of("shop.Order")))
        given = json_format.Parse('{"id": 1, "lines": [{"item": "x"}]}', kind())
        config = {"use.deprecated.format": False}
        data = cast(Any, ProtobufSerializer)(kind, client, config)(given, at)
        read = cast(Any, ProtobufDeserializer)(kind, config, client)
        assert read(through(apache, topic, data), at) == given


def test_a_registry_starts_again_from_its_topic(apache: Kafka, fresh: Callable[[str], str]) -> None:
    name = fresh("schemas")
    with registry(apache, name) as client:
        first = client.register_schema("orders-value", avro(A))
        second = client.register_schema("orders-value", avro(A, B_OPTIONAL))
        client.register_schema("gone-value", Schema(JSON_SCHEMA, "JSON"))
        client.delete_subject("gone-value")
        client.delete_subject("gone-value", permanent=True)
    with registry(apache, name) as client:
        assert client.get_versions("orders-value") == [1, 2]
        found = [client.get_version("orders-value", n).schema_id for n in (1, 2)]
        assert found == [first, second]
        assert client.get_subjects() == ["orders-value"]
        unreadable = avro(A, {"name": "c", "type": "int"})  # without a default
        assert refusal(client.register_schema, "orders-value", unreadable)[0] == 409
        assert client.register_schema("other-value", Schema(PROTO, "PROTOBUF")) > second
