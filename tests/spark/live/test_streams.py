"""Streams by a real Spark. tests/spark/stream and tests/spark/sink have the tests that need no
session."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pipeline_examples
import pytest
from clients import topics
from clients.fixtures import Kafka
from confluent_kafka import Producer
from spark_records import Made, produce, records

from pk.net.client.partitioner import partition_for_key
from pk.spark.pipeline.definition import parse_pipeline
from pk.spark.pipeline.run import RunOptions, run_pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.peer

DOCS = Path(__file__).resolve().parents[3] / "docs"
Fresh = Callable[[str], str]
WAIT_S = 300
CONNECT_BACK = "Python worker failed to connect back"
"""Spark gives the process of a stream's reader ten seconds to start, which a busy machine may not
have."""


def stream(spark: SparkSession, kafka: Kafka, **options: object) -> DataFrame:
    given = {name: str(value) for name, value in options.items()}
    source = spark.readStream.format("pk").option("kafka.bootstrap.servers", kafka.bootstrap)
    return source.options(**given).load()


def to_parquet(frame: DataFrame, directory: Path) -> StreamingQuery:
    """Adds the present records to the directory's files."""
    writer = frame.writeStream.format("parquet").option("path", str(directory / "rows"))
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    return run_to_end(writer)


def run_to_end(writer: DataStreamWriter) -> StreamingQuery:
    """Runs the query until it has read the present records."""
    from pyspark.errors import StreamingQueryException

    while True:
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(WAIT_S), query.lastProgress
        except StreamingQueryException as e:
            if CONNECT_BACK in str(e):
                continue  # it resumes from its checkpoint
            raise
        return query


def wanted(got: dict[int, list[Made]]) -> list[tuple[object, ...]]:
    return [
        (p, o, m.key, m.value, tuple(m.headers)) for p in sorted(got) for o, m in enumerate(got[p])
    ]


def found(rows: list[Row]) -> list[tuple[object, ...]]:
    return sorted(
        (
            r["partition"],
            r["offset"],
            r["key"] if r["key"] is None else bytes(r["key"]),
            r["value"] if r["value"] is None else bytes(r["value"]),
            tuple(
                (h["key"], None if h["value"] is None else bytes(h["value"]))
                for h in r["headers"] or ()
            ),
        )
        for r in rows
    )


def test_a_stream_goes_on_from_its_checkpoint(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create_topic(pk_kafka, fresh("stream"), 3)
    got = produce(pk_kafka, topic, records(400, 3))
    frame = stream(
        spark,
        pk_kafka,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=150,
        includeHeaders="true",
    )
    query = to_parquet(frame, tmp_path)
    sizes = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert sum(sizes) == 400 and max(sizes) <= 153 and len(sizes) == 3
    for partition, more in produce(pk_kafka, topic, records(100, 3, seed=2)).items():
        got[partition] += more
    again = to_parquet(frame, tmp_path)
    assert sum(p["numInputRows"] for p in again.recentProgress) == 100
    assert found(spark.read.parquet(str(tmp_path / "rows")).collect()) == wanted(got)
    [source] = query.recentProgress[-1]["sources"]
    end = json.loads(source["endOffset"])
    assert sum(end[topic].values()) == 400, "as programs read the progress of Spark's own source"


def test_a_view_in_sql_finds_the_source(pk_kafka: Kafka, fresh: Fresh, spark: SparkSession) -> None:
    topic = topics.create_topic(pk_kafka, fresh("table"), 2)
    topics.produce(pk_kafka, topic, 2, 30)
    view = fresh("view").replace("-", "_")
    spark.sql(
        f"CREATE TEMPORARY VIEW {view} USING pk OPTIONS (`kafka.bootstrap.servers`"
        f" '{pk_kafka.bootstrap}', subscribe '{topic}')"
    )
    assert spark.sql(f"SELECT count(DISTINCT partition, offset) FROM {view}").collect()[0][0] == 60


def test_a_query_that_loses_records_fails_with_the_reason(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    topic = topics.create_topic(pk_kafka, fresh("stream"))
    topics.produce(pk_kafka, topic, 1, 5)
    frame = stream(spark, pk_kafka, subscribe=topic, startingOffsets="earliest")
    to_parquet(frame, tmp_path)
    topics.admin(pk_kafka).delete_topics([topic])[topic].result(WAIT_S)
    topics.wait_until(
        "the deletion", lambda: topic not in topics.admin(pk_kafka).list_topics().topics
    )
    with pytest.raises(StreamingQueryException, match="no longer exists; failOnDataLoss=false"):
        to_parquet(frame, tmp_path)


def committed(kafka: Kafka, topic: str, partitions: int) -> Counter[Any]:
    """The values that a reader of committed records gets."""
    values = [message.value() for message in topics.committed_messages(kafka, topic, partitions)]
    return Counter(values)


def to_topic(
    frame: DataFrame, kafka: Kafka, topic: str, checkpoint: Path, **options: str
) -> StreamingQuery:
    writer = frame.writeStream.format("pk").option("kafka.bootstrap.servers", kafka.bootstrap)
    writer = writer.option("topic", topic).option("checkpointLocation", str(checkpoint))
    return run_to_end(writer.options(**options))


def test_a_stream_from_topic_to_topic_is_exact_also_if_batches_come_again(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    source, target = (topics.create_topic(pk_kafka, fresh(n), 3) for n in ("in", "out"))
    producer = Producer({"bootstrap.servers": pk_kafka.bootstrap, "log_level": 0})
    for number in range(900):
        producer.produce(source, b"%d" % number, b"key-%d" % (number % 7))
    assert producer.flush(WAIT_S) == 0
    frame = stream(
        spark,
        pk_kafka,
        subscribe=source,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=300,
        includeHeaders="true",
    ).drop("partition")
    to_topic(frame, pk_kafka, target, tmp_path / "cp")
    # The driver died after the last commit and before Spark noted it: the batch comes again, with
    # its rows in other tasks.
    commits = tmp_path / "cp" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    query = to_topic(frame.repartition(3), pk_kafka, target, tmp_path / "cp")
    assert [p["batchId"] for p in query.recentProgress if p["numInputRows"]] == [last]
    assert committed(pk_kafka, target, 3) == Counter(b"%d" % n for n in range(900))
    ours, theirs = (
        sorted((r["partition"], bytes(r["key"])) for r in rows.select("partition", "key").collect())
        for rows in (table(spark, pk_kafka, target), table(spark, pk_kafka, source))
    )
    # librdkafka's default partitioner is not Java's, so only the keys' staying together is
    # compared.
    assert len(ours) == len(theirs) == 900
    assert len(set(ours)) == len({key for _, key in ours}) == 7


def table(spark: SparkSession, kafka: Kafka, topic: str) -> DataFrame:
    source = spark.read.format("pk").option("kafka.bootstrap.servers", kafka.bootstrap)
    return (
        source.option("subscribe", topic)
        .option("kafka.isolation.level", "read_committed")
        .option("includeHeaders", "true")
        .load()
    )


def test_rows_of_a_job_with_headers_topics_and_partitions(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession
) -> None:
    one, other = (topics.create_topic(pk_kafka, fresh("job"), 4) for _ in range(2))
    frame = spark.range(0, 1_000, 1, 5).selectExpr(
        "if(id % 3 = 0, null, concat('k', id % 50)) AS key",
        "if(id = 7, null, cast(id AS string)) AS value",
        f"if(id % 2 = 0, '{one}', '{other}') AS topic",
        "if(id % 5 = 0, 3, null) AS partition",
        (
            "if(id % 4 = 0, array(named_struct('key', 'h', 'value', cast('v' AS binary))), null) "
            "AS headers"
        ),
        "id AS more",
    )
    writer = frame.write.format("pk").option("kafka.bootstrap.servers", pk_kafka.bootstrap)
    writer.option("kafka.compression.type", "zstd").mode("append").save()
    rows = [*table(spark, pk_kafka, one).collect(), *table(spark, pk_kafka, other).collect()]
    assert len(rows) == 1_000
    assert sorted(int(r["value"]) for r in rows if r["value"] is not None) == sorted(
        set(range(1_000)) - {7}
    )
    for row in rows:
        number = 7 if row["value"] is None else int(row["value"])
        assert row["topic"] == (one if number % 2 == 0 else other)
        key = None if number % 3 == 0 else b"k%d" % (number % 50)
        assert (row["key"] if key is None else bytes(row["key"])) == key
        if number % 5 == 0:
            assert row["partition"] == 3
        elif key is not None:
            assert row["partition"] == partition_for_key(key, 4)
        assert (row["headers"] is not None) == (number % 4 == 0)


def test_a_job_above_the_drivers_result_size_is_staged(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    """The session's spark.driver.maxResultSize is 4 MB, and each of the tasks has more."""
    topic = topics.create_topic(pk_kafka, fresh("job"), 2)
    frame = spark.range(0, 12_000, 1, 3).selectExpr(
        "cast(id AS string) AS key", "concat(id, repeat('x', 1500)) AS value"
    )
    writer = frame.write.format("pk").option("kafka.bootstrap.servers", pk_kafka.bootstrap)
    writer = writer.option("topic", topic).option("stagingLocation", str(tmp_path / "staged"))
    writer.mode("append").save()
    assert table(spark, pk_kafka, topic).selectExpr("count(DISTINCT key)").collect()[0][0] == 12_000
    assert sum(committed(pk_kafka, topic, 2).values()) == 12_000
    assert list((tmp_path / "staged").iterdir()) == []


def test_a_write_is_refused_before_it_begins(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession
) -> None:
    from pyspark.errors import PySparkException

    def save(mode: str = "append", **options: str) -> None:
        writer = spark.range(3).selectExpr("id AS value").write.format("pk").mode(mode)
        writer.option("kafka.bootstrap.servers", pk_kafka.bootstrap).options(**options).save()

    with pytest.raises(PySparkException, match="column value must be a string or binary"):
        save(topic="t")
    with pytest.raises(PySparkException, match="use mode append"):
        save("overwrite", topic="t")
    with pytest.raises(PySparkException, match=r"security\.protocol"):
        save(topic="t", **{"kafka.security.protocol": "NOPE"})


def test_the_programs_of_the_page_run(
    pk_kafka: Kafka,
    fresh: Fresh,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The programs of docs/spark/streams.md: in this session, with this broker."""
    page = (DOCS / "spark" / "streams.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {name: fresh(name) for name in ("orders", "shouted", "seen", "counted")}
    for name in names.values():
        topics.create_topic(pk_kafka, name, 2)
    topics.produce(pk_kafka, names["orders"], 2, 20)
    text = "\n".join(programs).replace("localhost:9092", pk_kafka.bootstrap)
    for name, real in names.items():
        text = text.replace(f'"{name}")', f'"{real}")').replace(f'"{name}"}}', f'"{real}"}}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    exec(compile(text, "docs/spark/streams.md", "exec"), {})  # noqa: S102 (the page is ours)
    values = Counter(b"%d" % n for n in range(40))
    assert committed(pk_kafka, names["orders"], 2) == values
    assert committed(pk_kafka, names["shouted"], 2) == values
    assert committed(pk_kafka, names["seen"], 2) == Counter(b"seen: " + v for v in values)
    assert sum(int(v) * n for v, n in committed(pk_kafka, names["counted"], 2).items()) == 40
    assert len(programs) == 4


def test_secrets_do_not_show_in_plans(spark: SparkSession) -> None:
    secret = "s3cr3t-of-orders"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    options = {
        "kafka.bootstrap.servers": "localhost:9092",
        "subscribe": "orders",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module} required username="u" password="{secret}";',
    }
    for reader in (spark.read, spark.readStream):
        frame = reader.format("pk").options(**options).load().where("offset > 5")
        plan: Any = frame._jdf.queryExecution()  # type: ignore[operator]
        shown = [
            plan.logical().toString(),
            plan.analyzed().treeString(),
            plan.analyzed().toString(),
        ]
        assert all("offset" in text and secret not in text for text in shown)


def test_the_example_of_a_windowed_count(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    """One of examples/ in the everyday run; the others, and what pipelines promise:
    test_pipelines.py."""
    names = {name: fresh(name) for name in ("orders", "orders-per-minute", "orders-dead-letters")}
    text = (pipeline_examples.EXAMPLES / "windowed-count.toml").read_text()
    for name, new in names.items():
        text = text.replace(f'topic = "{name}"', f'topic = "{new}"')
        text = text.replace(f'letters = "{name}"', f'letters = "{new}"')
        pipeline_examples.append(pk_kafka.bootstrap, new)
    pipeline_examples.append(pk_kafka.bootstrap, names["orders"], pipeline_examples.data("orders"))
    pipeline = parse_pipeline(text, str(tmp_path / "p.toml"))
    options = RunOptions({"kafka.bootstrap.servers": pk_kafka.bootstrap}, once=True)
    assert run_pipeline(pipeline, options, spark).status["dead_letters"] == 6
    counts = pipeline_examples.counts_of(pk_kafka.bootstrap, names["orders-per-minute"])
    good = pipeline_examples.good_orders()
    assert counts == Counter((o["at"][:16], o["customer"]) for o in good)
    letters = pipeline_examples.committed(pk_kafka.bootstrap, names["orders-dead-letters"])
    assert len(letters) + len(good) == 300
