"""Large batches of streams by a real Spark: executors publish them.
tests/spark/sink/test_large_batch.py has the tests that need no session."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clients import topics
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker
from pipeline_world import World

from pk.spark import write_batch
from pk.spark.sink.large_batch import LargeBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.peer

Fresh = Callable[[str], str]
WAIT_S = 300
CONNECT_BACK = "Python worker failed to connect back"
"""Spark gives the process of a stream's reader ten seconds to start, which a busy machine may not
have."""

PIPELINE = """
name = "p"
checkpoint = "cp"
[[source]]
name = "orders"
topic = "orders"
[[sink]]
from = "orders"
topic = "out"
driver_bytes = 0
"""


def committed(kafka: Kafka, topic: str, partitions: int) -> dict[int, list[Any]]:
    """The values of each partition that a reader of committed records gets."""
    found: dict[int, list[Any]] = {n: [] for n in range(partitions)}
    for message in topics.committed_messages(kafka, topic, partitions):
        partition = message.partition()
        assert partition is not None
        found[partition].append(message.value())
    return found


def run(frame: DataFrame, checkpoint: Path, write: Callable[[DataFrame, int], None]) -> None:
    """Runs the query until it has read the present records."""
    from pyspark.errors import StreamingQueryException

    writer = frame.writeStream.foreachBatch(write).trigger(availableNow=True)
    while True:
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        try:
            assert query.awaitTermination(WAIT_S), query.lastProgress
        except StreamingQueryException as e:
            if CONNECT_BACK in str(e):
                continue  # it resumes from its checkpoint
            raise
        return


def forget(checkpoint: Path) -> int:
    """Spark has not noted the last batch: it comes again."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last


def test_large_batches_of_a_program_are_exact_if_they_come_again(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    source, target = (topics.create_topic(pk_kafka, fresh(n), 3) for n in ("in", "out"))
    topics.produce(pk_kafka, source, 3, 100)
    frame = (
        spark.readStream.format("pk")
        .option("kafka.bootstrap.servers", pk_kafka.bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 150)
        .load()
        .selectExpr("partition", "concat_ws(':', partition, offset) AS value")
    )
    checkpoint = tmp_path / "cp"
    options = {"kafka.bootstrap.servers": pk_kafka.bootstrap, "topic": target}

    def write(rows: DataFrame, batch: int) -> None:
        write_batch(rows, batch, options, checkpoint=checkpoint, driver_bytes=0)

    run(frame, checkpoint, write)
    wanted = {n: [b"%d:%d" % (n, offset) for offset in range(100)] for n in range(3)}
    assert committed(pk_kafka, target, 3) == wanted, "in order"
    forget(checkpoint)
    run(frame.repartition(3), checkpoint, write)
    assert committed(pk_kafka, target, 3) == wanted
    [query] = (checkpoint / "pk-sealed").iterdir()
    assert query.name == json.loads((checkpoint / "metadata").read_text())["id"]
    assert list(query.iterdir()) == []


@pytest.mark.parametrize("looks", [True, False])
def test_a_driver_that_died_before_the_markers_goes_on(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path, looks: bool
) -> None:
    """Executors have published, the driver has not noted it; the rows would be others now. Each is
    there twice if the tasks do not look for the markers of files."""
    from pk.spark.sink import publish_files
    from pk.spark.sink.foreach_batch import PublishLanes
    from pk.spark.sink.foreach_batch import write_batch as write_kind

    async def no_markers(*_: object) -> set[str]:
        return set()

    class Blind(PublishLanes):
        def __call__(self, batches: Any) -> Iterator[Any]:
            plain = publish_files.published_files
            publish_files.published_files = no_markers
            try:
                yield from super().__call__(batches)
            finally:
                publish_files.published_files = plain

    target = topics.create_topic(pk_kafka, fresh("out"), 3)
    given = {"kafka.bootstrap.servers": pk_kafka.bootstrap, "topic": target}

    class Dies(LargeBatch):
        def publish_listed(self, listed: Any, publish: Any) -> None:
            publish(listed)
            raise RuntimeError("died")

    write = partial(
        write_kind, options=given, checkpoint=tmp_path, query_id=fresh("query"), driver_bytes=0
    )
    rows = spark.range(0, 300, 1, 3).selectExpr("concat(id, ':', rand()) AS value")
    with pytest.raises(RuntimeError, match="died"):
        write(rows, 0, kind=Dies)
    write(rows, 0, lanes_kind=PublishLanes if looks else Blind)
    values = [value for each in committed(pk_kafka, target, 3).values() for value in each]
    times = 1 if looks else 2
    assert Counter(int(v.split(b":")[0]) for v in values) == dict.fromkeys(range(300), times)


def test_a_write_is_refused_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(3).selectExpr("id AS value")
    options = {"kafka.bootstrap.servers": "localhost:1", "topic": "t"}
    with pytest.raises(ValueError, match="is not the checkpoint of a running query"):
        write_batch(rows, 0, options, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="column value must be a string or binary"):
        write_batch(rows, 0, options, checkpoint=tmp_path, query_id="q")
    with pytest.raises(ValueError, match="queryId may contain only letters"):
        write_batch(rows, 0, options, checkpoint=tmp_path, query_id="a/b")


@pytest.mark.parametrize("way", ["driver_bytes = 0", "atomic = true"])
def test_a_pipeline_of_either_way_is_exact(spark: SparkSession, tmp_path: Path, way: str) -> None:
    with PkBroker() as broker:
        world = World(broker.bootstrap, spark, tmp_path)
        world.topic("orders", [str(n) for n in range(100)])
        world.topic("out")
        pipeline = world.pipeline(PIPELINE.replace("driver_bytes = 0", way))
        world.run(pipeline)
        forget(tmp_path / "cp" / "sinks" / "orders")
        world.run(pipeline)
        found = Counter(value for _, value, _ in world.committed("out"))
        assert found == Counter(b"%d" % n for n in range(100))
