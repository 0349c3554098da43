"""The data source in a session of Spark Connect, whose server does not have pk: a table and a
sink; a stream is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clients import topics
from clients.fixtures import Kafka
from pipeline_examples import committed
from spark_servers import connect_server

from pk.spark.connect import register

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

pytestmark = pytest.mark.slow
Fresh = Callable[[str], str]
WAIT_S = 300


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql.connect.session import SparkSession

    with connect_server(tmp_path_factory.mktemp("connect"), libraries=True) as url:
        session = SparkSession.builder.remote(url).create()
        register(session)
        yield session
        session.stop()


def source(spark: SparkSession, kafka: Kafka, topic: str) -> Any:
    return (
        spark.read.format("pk")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("subscribe", topic)
    )


def test_a_table_and_a_sink(pk_kafka: Kafka, fresh: Fresh, spark: SparkSession) -> None:
    topic = topics.create_topic(pk_kafka, fresh("remote"), 2)
    topics.produce(pk_kafka, topic, 2, 50)
    out = topics.create_topic(pk_kafka, fresh("out"), 1)
    rows = source(spark, pk_kafka, topic).load()
    assert rows.count() == 100
    sink = rows.select("key", "value").write.format("pk").mode("append")
    sink.option("kafka.bootstrap.servers", pk_kafka.bootstrap).option("topic", out).save()
    assert values(pk_kafka, out) == values(pk_kafka, topic)


def test_a_stream_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    rows = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    writer = rows.writeStream.format("pk").option("kafka.bootstrap.servers", "127.0.0.1:1")
    writer = writer.option("topic", "t").option("checkpointLocation", str(tmp_path))
    with pytest.raises(PySparkException, match="install pk-broker in the server's Python"):
        writer.start().awaitTermination(WAIT_S)


def values(kafka: Kafka, topic: str) -> list[Any]:
    return sorted((key, value) for key, value, _ in committed(kafka.bootstrap, topic))
