"""Pipelines whose values have schemas in a registry, by a real Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clients.pk_broker import PkBroker
from confluent_kafka import Producer
from pipeline_examples import append, committed

from pk.core.schemas.schema import Resolved, Schema
from pk.core.schemas.serialization import Deserializer, encoder
from pk.net.schemas.blocking import Schemas
from pk.spark.pipeline.definition import parse_pipeline
from pk.spark.pipeline.run import RunOptions, run_pipeline, settings
from pk.spark.session.local import launch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
WAIT_S = 300

FILE = """
name = "p"
checkpoint = "cp"
on_error = "dlq"
dead_letters = "dead"
[schema_registry]
url = "{registry}"
[[source]]
name = "orders"
topic = "orders"
value = "avro"
[[step]]
name = "all_fields"
sql = "SELECT value.* FROM orders"
[[sink]]
from = "all_fields"
topic = "out"
format = "json-schema"
options = {{ "auto.register.schemas" = true }}
"""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    conf = settings(parse_pipeline(FILE.format(registry="r"), "p.toml"))
    with launch(cores=2, conf=conf) as own:
        yield own.session()


KEYS = """
name = "keys"
checkpoint = "cp"
on_error = "dlq"
dead_letters = "dead"
[schema_registry]
url = "{registry}"
[[source]]
name = "orders"
topic = "orders"
key = "avro"
value = "json"
fields = "n INT"
[[step]]
name = "flat"
sql = "SELECT key.a, value.n FROM orders"
[[sink]]
from = "flat"
topic = "out"
key = "struct(a AS b)"
key_format = "avro"
value = "cast(n AS string)"
options = {{ "auto.register.schemas" = true }}
"""


def order(*names: str) -> Schema:
    fields = [{"name": name, "type": "int", "default": 0} for name in names]
    return Schema(json.dumps({"type": "record", "name": "Order", "fields": fields}))


def test_keys_with_schemas_and_the_bytes_of_those_that_do_not_parse(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "registry").mkdir()
    schemas = Schemas(str(tmp_path / "registry"))
    write = encoder(Resolved(order("a")), schemas.register("orders-key", order("a")))
    good, bad = write({"a": 1}), b"not of a schema"
    with PkBroker() as broker:
        for topic in ("orders", "out", "dead"):
            append(broker.bootstrap, topic)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        sent = {good: (b'{"n": 5}', b"no JSON"), bad: (b'{"n": 6}', b"nor this")}
        for key, values in sent.items():
            for value in values:
                producer.produce("orders", value, key)
        assert producer.flush(WAIT_S) == 0
        path = tmp_path / "p.toml"
        path.write_text(KEYS.format(registry=tmp_path / "registry"))
        pipeline = parse_pipeline(path.read_text(), str(path))
        options = RunOptions({"kafka.bootstrap.servers": broker.bootstrap}, once=True)
        run_pipeline(pipeline, options, spark)
        [(key, value, _)] = committed(broker.bootstrap, "out")
        assert key is not None
        assert (Deserializer(schemas.by_id).decode(key), value) == ({"b": 1}, b"5")
        found = {
            (key, value): dict(headers)["__pk.errors.message"].decode()
            for key, value, headers in committed(broker.bootstrap, "dead")
        }
    not_json = "the value is not a JSON object"
    assert found[good, b"no JSON"] == not_json
    assert found[bad, b'{"n": 6}'].startswith("key: the first byte is 110")
    first, _, second = found[bad, b"nor this"].rpartition("; ")
    assert first.startswith("key: the first byte is 110") and second == not_json
    assert len(found) == 3


def test_a_field_that_is_added_appears_and_what_does_not_parse_is_a_dead_letter(
    spark: SparkSession, tmp_path: Path
) -> None:
    schemas = Schemas(str(tmp_path / "registry"))
    (tmp_path / "registry").mkdir()
    with PkBroker() as broker:
        for topic in ("orders", "out", "dead"):
            append(broker.bootstrap, topic)
        producer = Producer({"bootstrap.servers": broker.bootstrap})

        def produce(schema: Schema, *values: dict[str, int]) -> None:
            write = encoder(Resolved(schema), schemas.register("orders-value", schema))
            for value in values:
                producer.produce("orders", write(value))
            assert producer.flush(60) == 0

        def rows() -> list[dict[str, Any]]:
            read = Deserializer(schemas.by_id)
            return [
                read.decode(value) for _, value, _ in committed(broker.bootstrap, "out") if value
            ]

        produce(order("a"), {"a": 1}, {"a": 2})
        producer.produce("orders", b"not of a schema", b"key")
        path = tmp_path / "p.toml"
        path.write_text(FILE.format(registry=tmp_path / "registry"))
        pipeline = parse_pipeline(path.read_text(), str(path))
        progressed, ended = threading.Event(), threading.Event()
        options = RunOptions(
            {"kafka.bootstrap.servers": broker.bootstrap}, progress=lambda _: progressed.set()
        )

        def wait_for(count: int) -> None:
            """Wait until this many rows are in the output."""
            while len(rows()) < count and not ended.is_set():
                assert progressed.wait(WAIT_S)
                progressed.clear()

        def change() -> None:
            """While the queries run: a version that is new, and records of both."""
            try:
                wait_for(2)
                produce(order("a", "b"), {"a": 3, "b": 4})
                produce(order("a"), {"a": 5})
                wait_for(4)
            finally:
                (tmp_path / "cp" / "pk" / "stop").touch()

        with ThreadPoolExecutor(1) as threads:
            changing = threads.submit(change)
            # The pipeline runs in the thread that has the session: in others Spark does not find
            # the data source.
            try:
                assert run_pipeline(pipeline, options, spark).stopped
            finally:
                ended.set()
                progressed.set()
            changing.result(WAIT_S)
        found = sorted(rows(), key=lambda each: each["a"])
        assert found == [{"a": 1}, {"a": 2}, {"a": 3, "b": 4}, {"a": 5, "b": 0}]
        [(key, value, headers)] = committed(broker.bootstrap, "dead")
        assert (key, value) == (b"key", b"not of a schema")
        assert dict(headers)["__pk.errors.message"].startswith(b"the first byte is 110")
