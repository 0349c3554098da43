"""The data source in a session of Spark Connect, whose server does not have pk: a table, a sink and
a stream."""

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
WAIT_S = 900
ATTEMPTS = 6


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql.connect.session import SparkSession

    with connect_server(tmp_path_factory.mktemp("connect"), libraries=True) as url:
        session = SparkSession.builder.remote(url).create()
        register(session)
        yield session
        session.stop()


def source(reader: Any, kafka: Kafka, topic: str) -> Any:
    return (
        reader.format("pk")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("subscribe", topic)
    )


def test_a_table_and_a_sink(pk_kafka: Kafka, fresh: Fresh, spark: SparkSession) -> None:
    topic = topics.create_topic(pk_kafka, fresh("remote"), 2)
    topics.produce(pk_kafka, topic, 2, 50)
    out = topics.create_topic(pk_kafka, fresh("out"), 1)
    rows = source(spark.read, pk_kafka, topic).load()
    assert rows.count() == 100
    sink = rows.select("key", "value").write.format("pk").mode("append")
    sink.option("kafka.bootstrap.servers", pk_kafka.bootstrap).option("topic", out).save()
    assert values(pk_kafka, out) == values(pk_kafka, topic)


def test_a_stream_goes_on_from_its_checkpoint(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create_topic(pk_kafka, fresh("remote"), 2)
    out = topics.create_topic(pk_kafka, fresh("out"), 1)
    for _ in range(2):
        topics.produce(pk_kafka, topic, 2, 50)
        rows = source(spark.readStream, pk_kafka, topic).option("startingOffsets", "earliest")
        # Several batches.
        rows = rows.option("maxOffsetsPerTrigger", 60).load().select("key", "value")
        sink = rows.writeStream.format("pk").option("topic", out)
        sink = sink.option("kafka.bootstrap.servers", pk_kafka.bootstrap)
        sink = sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        run(sink)
        assert values(pk_kafka, out) == values(pk_kafka, topic)


def run(sink: Any) -> None:
    """Runs a query to its end. Spark gives the process of a stream ten seconds to start, which may
    be too short on a busy machine: then the query resumes from its checkpoint."""
    from pyspark.errors import PySparkException

    for _ in range(ATTEMPTS):
        try:
            assert sink.start().awaitTermination(WAIT_S)
            return
        except PySparkException as e:
            if "Python worker failed to connect back" not in str(e):
                raise
    raise AssertionError("no process of a stream started in time")


def values(kafka: Kafka, topic: str) -> list[Any]:
    return sorted((key, value) for key, value, _ in committed(kafka.bootstrap, topic))
