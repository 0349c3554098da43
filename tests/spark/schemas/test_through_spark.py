"""The source and the sink with schemas, in a real Spark: tests/spark/schemas/test_reading.py and
test_writing.py show the rest without."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import confluent_records as confluent
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from schemas.running import Running, running_registry

from pk.core.schemas.schema import Schema
from pk.net.schemas.blocking import Schemas
from pk.spark.session.local import launch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow
WAIT_S = 300
PASSWORD = "s3cret-of-the-registry"


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running_registry() as found:
        yield found


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    log = tmp_path_factory.mktemp("events")
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{log}",
    }
    with launch(cores=2, conf=conf) as own:
        yield own.session()
    logged = b"".join(path.read_bytes() for path in log.rglob("*") if path.is_file())
    assert logged and PASSWORD.encode() not in logged


def produce(served: Running, topic: str, data: list[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": served.bootstrap})
    for each in data:
        producer.produce(topic, each)
    assert producer.flush(WAIT_S) == 0


def options(served: Running, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": served.bootstrap,
        "schema.registry.url": served.url,
        "schema.registry.basic.auth.user.info": f"somebody:{PASSWORD}",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def rows(frame: DataFrame) -> list[Any]:
    return [row.asDict(recursive=True)["value"] for row in frame.orderBy("offset").collect()]


def test_three_versions_of_each_format_in_one_batch(served: Running, spark: SparkSession) -> None:
    data, wanted = confluent.avro(served.url, "a")
    produce(served, "a", [*data, None, b"bad"])
    given = options(served, value_format="avro", schema_on_error="null")
    frame = spark.read.format("pk").options(**given, subscribe="a").load()
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,item:string,price:decimal(9,2),at:timestamp,raw:binary,"
        "lines:array<struct<sku:string>>,tags:map<string,int>>"
    )
    found = rows(frame)
    for each in found[:3]:
        each["at"] = each["at"].astimezone(datetime.UTC)
        each["raw"] = bytes(each["raw"])
    assert found == [*wanted, None, None]
    [error] = frame.where("value_error is not null").select("value_error").collect()
    assert bytes(error[0]["bytes"]) == b"bad"
    assert PASSWORD not in frame._jdf.queryExecution().toString()  # type: ignore[operator]

    data, plain = confluent.json_schema(served.url, "j")
    produce(served, "j", list(data))
    given = options(served, value_format="json")
    found = rows(spark.read.format("pk").options(**given, subscribe="j").load())
    assert [{k: v for k, v in each.items() if v is not None} for each in found] == [
        {k: v for k, v in each.items() if v is not None} for each in plain
    ]

    data, messages = confluent.protobuf(served.url, "p")
    produce(served, "p", list(data))
    given = options(served, value_format="protobuf") | {"value.schema.name": "Order"}
    found = rows(spark.read.format("pk").options(**given, subscribe="p").load())
    assert [(each["id"], int(each["large"]), each["n"]) for each in found] == [
        (m.id, m.large, m.n if m.HasField("n") else None) for m in messages
    ]


def test_an_export_has_the_columns_of_the_schema_and_keeps_them(
    served: Running, spark: SparkSession, tmp_path: Path
) -> None:
    from pk.spark.export.exporter import ExportOptions, export

    data, wanted = confluent.avro(served.url, "exported")
    produce(served, "exported", list(data))
    options = ExportOptions(
        bootstrap=served.bootstrap,
        topic="exported",
        directory=tmp_path / "out",
        key="string",
        value="avro",
        schemas={"schema.registry.url": served.url},
    )
    assert export(options, spark=spark).records == 3
    # A later version does not change the columns of an existing export.
    fields = [*confluent.AVRO_FIELDS, {"name": "more", "type": "int", "default": 0}]
    text = json.dumps({"type": "record", "name": "Order", "fields": fields})
    number = Schemas(served.url).register("exported-value", Schema(text))
    produce(served, "exported", [b"\0" + number.to_bytes(4, "big") + data[2][5:] + b"\x02"])
    again = replace(options, mode="resume", key=None, value=None)
    assert export(again, spark=spark).records == 1
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("offset").collect()
    assert [row["value"]["id"] for row in rows] == [1, 2, 3, 3]
    assert rows[3]["value"] == rows[2]["value"]
    assert rows[2]["value"]["price"] == wanted[2]["price"]
    # `evolve` lets it change them.
    produce(served, "exported", [b"\0" + number.to_bytes(4, "big") + data[2][5:] + b"\x04"])
    evolving = replace(again, evolve=True)
    assert export(evolving, spark=spark).records == 1
    rows = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "out"))
    assert [row["value"]["more"] for row in rows.orderBy("offset").collect()] == [*[None] * 4, 2]


def test_the_program_of_the_page(served: Running, spark: SparkSession) -> None:
    """docs/spark/schemas.md"""
    path = Path(__file__).resolve().parents[3] / "docs" / "spark" / "schemas.md"
    page = path.read_text(encoding="utf-8")
    [text] = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    confluent.avro(served.url, "orders")
    text = text.replace("localhost:9092", served.bootstrap)
    text = text.replace("http://localhost:8081", served.url).rpartition("orders.select")
    found: dict[str, Any] = {"spark": spark}
    exec(compile(f"{text[0]}selected = {text[1]}{text[2]}", "docs/spark/schemas.md", "exec"), found)  # noqa: S102 (the page is ours)
    types = [each.dataType.simpleString() for each in found["selected"].schema]
    assert types == ["bigint", "string"]


def test_a_stream_reads_and_writes_schemas(
    served: Running, spark: SparkSession, tmp_path: Path
) -> None:
    data, wanted = confluent.avro(served.url, "in")
    produce(served, "in", list(data))
    given = options(served, value_format="avro")

    def run() -> None:
        from pyspark.errors import StreamingQueryException

        while True:
            frame = (
                spark.readStream.format("pk")
                .options(**given, subscribe="in", startingOffsets="earliest")
                .load()
            )
            writer = frame.selectExpr("key", "value").writeStream.format("pk")
            writer = writer.options(**given, **{"auto.register.schemas": "true"}, topic="out")
            writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
            query = writer.trigger(availableNow=True).start()
            try:
                assert query.awaitTermination(WAIT_S)
            except StreamingQueryException as e:
                if "failed to connect back" in str(e):
                    continue
                raise
            return

    run()
    produce(served, "in", list(data))
    run()
    with SchemaRegistryClient({"url": served.url}) as client:
        read: Any = cast(Any, AvroDeserializer)(client)
        settings = {"group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": served.bootstrap, **settings})
        consumer.subscribe(["out"])
        found: list[Any] = []
        while len(found) < 6:
            message = consumer.poll(60)
            assert message is not None and not message.error(), message
            found.append(read(message.value(), confluent.context("out")))
        consumer.close()
        assert client.get_versions("out-value") == [1]
    assert sorted(found, key=lambda each: each["id"]) == [w for w in wanted for _ in range(2)]
