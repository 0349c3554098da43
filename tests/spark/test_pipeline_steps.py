"""Records with which a step fails, by a real Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clients.jdbc_driver import sqlite_driver
from clients.pk_broker import PkBroker
from pipeline_examples import duckdb
from pipeline_world import World
from pyspark.sql import functions as f

from pk.net.client.config import ProducerConfig
from pk.spark.pipeline.dead_letters import letters
from pk.spark.pipeline.definition import parse_pipeline
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.run import PipelineFailed, settings
from pk.spark.session.local import launch
from pk.spark.sink.seal import seal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

FILE = """
name = "p"
checkpoint = "cp"
{on_error}
[[source]]
name = "words"
topic = "words"
value = "string"
{step}
[[sink]]
from = "step"
name = "rows"
{sink}
"""
STEP = '[[step]]\nname = "step"\nsql = """{}"""'
DLQ = 'on_error = "dlq"\ndead_letters = "dead"'
PYTHON = """
from pyspark.sql import functions as f


def step(spark, rows):
    return rows.select("offset", f.udf(int, "BIGINT")("value").alias("v"))
"""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    text = FILE.format(on_error="", step=STEP.format("SELECT 1"), sink='topic = "good"')
    conf = settings(parse_pipeline(text, "p.toml")) | {"spark.sql.shuffle.partitions": "2"}
    with launch(cores=2, conf=conf, jars=[str(sqlite_driver())]) as own:
        yield own.session()


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    with PkBroker() as broker:
        yield World(broker.bootstrap, spark, tmp_path)


KINDS = [
    pytest.param("cast(value AS INT)", "1", "x", "cannot be cast to", id="cast"),
    pytest.param("10 / cast(value AS INT)", "1", "0", "Division by zero", id="division"),
    pytest.param("10 % cast(value AS INT)", "1", "0", "by zero", id="remainder"),
    pytest.param("array(1, 2)[cast(value AS INT)]", "1", "7", "out of bounds", id="index"),
    pytest.param("2147483647 + cast(value AS INT)", "-1", "1", "overflow", id="overflow"),
    pytest.param("to_timestamp(value, 'yyyy-MM-dd')", "2026-01-01", "soon", "soon", id="timestamp"),
    pytest.param("to_date(value)", "2026-01-01", "2026-02-31", "2026-02-31", id="date"),
    pytest.param(
        "from_json(value, 'a INT', map('mode', 'FAILFAST'))", '{"a":1}', '{"a"', "", id="from_json"
    ),
    pytest.param("to_number(value, '999')", "12", "x", "x", id="to_number"),
    pytest.param("map(value, 1, 'b', 2)", "a", "b", "Duplicate map key", id="map key"),
    pytest.param("make_date(2026, cast(value AS INT), 1)", "1", "13", "13", id="make_date"),
    pytest.param("if(value = 'x', raise_error('no x'), value)", "1", "x", "no x", id="raise_error"),
]


def test_each_kind_of_failure_is_a_dead_letter_with_its_reason(world: World) -> None:
    """All kinds in one pipeline: each takes the records that name it."""
    values = [param.values for param in KINDS]
    for name in ("good", "dead"):
        world.topic(name)
    cases = " ".join(
        f"WHEN {n} THEN to_json(struct({str(values[n][0]).replace('value', 'v')} AS r))"
        for n in range(len(values))
    )
    sql = (
        "SELECT cast(k AS STRING) AS key, value FROM (SELECT k, CASE k "
        f"{cases} END AS value FROM (SELECT cast(split_part(value, '|', 1) AS INT) AS k,"
        " split_part(value, '|', 2) AS v FROM words))"
    )
    good = [f"{n}|{values[n][1]}" for n in range(len(values))]
    bad = [f"{n}|{values[n][2]}" for n in range(len(values))]
    world.topic("words", [*good, *bad, *good])
    text = FILE.format(on_error=DLQ, step=STEP.format(sql), sink='topic = "good"')
    status = world.run(world.pipeline(text))
    assert status["dead_letters"] == len(bad)
    letters = {(v or b"").decode(): h for _, v, h in world.committed("dead")}
    assert sorted(letters) == sorted(bad)
    for each, (_, _, _, said) in zip(bad, values, strict=True):
        headers = letters[each]
        assert str(said) in headers["__pk.errors.message"].decode(), headers
        assert headers["__pk.errors.sink"] == b"rows"
    keys = sorted(int(key or b"") for key, _, _ in world.committed("good"))
    assert keys == sorted([*range(len(good))] * 2)


SINKS = [
    'topic = "good"',
    'parquet = "rows"',
    'delta = "rows"',
    'jdbc = "jdbc:sqlite:x.db"\ntable = "rows"',
]


@pytest.mark.parametrize("sink", SINKS)
def test_every_record_is_in_the_sink_or_in_the_dead_letters(world: World, sink: str) -> None:
    values = ["x" if n % 50 == 7 else str(n) for n in range(100)]
    for name in ("good", "dead"):
        world.topic(name)
    world.topic("words", values, 3)
    sql = "SELECT cast(value AS INT) AS v FROM words"
    pipeline = world.pipeline(FILE.format(on_error=DLQ, step=STEP.format(sql), sink=sink))
    assert world.run(pipeline)["dead_letters"] == 2
    world.topic("words", ["y", "1000"])
    assert world.run(pipeline)["dead_letters"] == 1
    assert sorted(v or b"" for _, v, _ in world.committed("dead")) == [b"x"] * 2 + [b"y"]
    wanted = [*(n for n in range(100) if n % 50 != 7), 1000]
    if "topic" in sink:
        found = [row["v"] for row in world.rows("good")]
    elif "jdbc" in sink:
        import sqlite3

        with sqlite3.connect(world.directory / "x.db") as database:
            found = [v for (v,) in database.execute("SELECT v FROM rows")]
        database.close()
    else:
        found = [v for (v,) in duckdb(f"SELECT v FROM '{world.directory}/rows/**/*.parquet'")]
    assert sorted(found) == wanted


def test_skip_counts_and_stop_names_topic_partition_and_offset(world: World) -> None:
    world.topic("words", ["1", "2", "x", "4", "y"], 1)
    world.topic("good")
    sql = "SELECT cast(value AS INT) AS v FROM words"
    text = FILE.format(on_error="", step=STEP.format(sql), sink='topic = "good"')
    pipeline = world.pipeline(text)
    said = (
        "a step fails with a record: words, partition 0, offset 2: The value 'x' of the type"
        ' "STRING"'
    )
    for _ in range(2):
        with pytest.raises(PipelineFailed, match=re.escape(said)):
            world.run(pipeline)
    skipping = world.pipeline(text.replace("[[source]]", 'on_error = "skip"\n[[source]]', 1))
    assert world.run(skipping)["dead_letters"] == 2
    assert sorted(row["v"] for row in world.rows("good")) == [1, 2, 4]


def test_a_failure_before_an_aggregate_or_in_python_is_a_dead_letter(world: World) -> None:
    for name in ("good", "dead"):
        world.topic(name)
    world.topic("words", ["1", "2", "x", "4"])
    sql = "SELECT 'all' AS k, sum(cast(value AS INT)) AS v FROM words GROUP BY 1"
    sink = 'topic = "good"\nmode = "update"'
    text = FILE.format(on_error=DLQ, step=STEP.format(sql), sink=sink)
    assert world.run(world.pipeline(text))["dead_letters"] == 1
    assert [row["v"] for row in world.rows("good")] == [7]

    (world.directory / "steps.py").write_text(PYTHON)
    step = '[[step]]\nname = "step"\npython = "steps.py:step"\ninputs = ["words"]'
    text = FILE.format(on_error=DLQ, step=step, sink='parquet = "rows"').replace('"cp"', '"cp2"')
    assert world.run(world.pipeline(text))["dead_letters"] == 1
    found = duckdb(f"SELECT v FROM '{world.directory}/rows/*.parquet' ORDER BY v")
    assert found == [(1,), (2,), (4,)]
    reasons = [h["__pk.errors.message"].decode() for _, _, h in world.committed("dead")]
    assert len(reasons) == 2 and any("invalid literal for int()" in each for each in reasons)


def test_no_record_is_blamed_for_what_is_not_its_fault(world: World) -> None:
    """A sum that overflows needs two records, and a table fails without any."""
    for name in ("good", "dead"):
        world.topic(name)
    world.topic("words", [str(2**62), str(2**62), "1"], 1)
    sql = "SELECT 'all' AS k, sum(cast(value AS BIGINT)) AS v FROM words GROUP BY 1"
    sink = 'topic = "good"\nmode = "update"'
    pipeline = world.pipeline(FILE.format(on_error=DLQ, step=STEP.format(sql), sink=sink))
    with pytest.raises(PipelineFailed, match="no record of the batch fails by itself"):
        world.run(pipeline)

    (world.directory / "t.csv").write_text("id,name\n1,one\nx,two\n")
    table = '[[table]]\nname = "names"\nfiles = "t.csv"\nformat = "csv"\n'
    sql = (
        "SELECT words.value, names.name FROM words"
        " JOIN names ON cast(words.value AS BIGINT) = cast(names.id AS BIGINT)"
    )
    text = FILE.format(on_error=DLQ, step=table + STEP.format(sql), sink='topic = "good"')
    with pytest.raises(PipelineFailed, match="'x'.*no record of the batch fails by itself"):
        world.run(world.pipeline(text.replace('"cp"', '"cp2"')))
    assert not world.committed("dead")


def test_letters_are_written_once_though_the_run_dies_between(world: World) -> None:
    """It dies after they are written, and before that is noted."""
    for name in ("good", "dead"):
        world.topic(name)
    world.topic("words", ["1", "x"], 1)
    sql = "SELECT cast(value AS INT) AS v FROM words"
    pipeline = world.pipeline(
        FILE.format(on_error=DLQ, step=STEP.format(sql), sink='topic = "good"')
    )
    world.run(pipeline)
    file = Places(pipeline).failed_records
    known = json.loads(file.read_text())
    known["rows"]["unwritten"] = known["rows"]["records"]
    file.write_text(json.dumps(known))
    world.run(pipeline)
    assert len(world.committed("dead")) == 1


def test_a_new_field_and_a_failure_in_one_batch(world: World) -> None:
    for name in ("good", "dead"):
        world.topic(name)
    rows = ['{"id": "1"}', '{"id": "x"}', '{"id": "2", "more": true}', "{broken"]
    world.topic("words", rows, 1)
    sql = "SELECT cast(value.id AS INT) AS n, value.* FROM words"
    text = FILE.format(on_error=DLQ, step=STEP.format(sql), sink='topic = "good"')
    text = text.replace('"string"', '"json"\nfields = "id STRING"')
    assert world.run(world.pipeline(text))["dead_letters"] == 2
    assert [row["n"] for row in world.rows("good")] == [1, 2]
    assert sorted(v or b"" for _, v, _ in world.committed("dead")) == sorted(
        [rows[1].encode(), rows[3].encode()]
    )


def test_no_letter_is_larger_than_a_request(spark: SparkSession) -> None:
    limit = 5_000
    kind = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    place = "topic STRING, partition INT, offset BIGINT, why STRING"
    headers = [("h", b"x" * 100), ("none", None)]
    rows: list[Any] = [
        (key, b"v" * size, headers, "t", 0, number, "w" * 5_000)
        for number, (key, size) in enumerate(
            [*((b"k", size) for size in range(2_500, 4_500, 50)), (b"k" * 5_000, 1), (None, 0)]
        )
    ]
    raw = spark.createDataFrame(rows, f"{kind}, {place}")
    says = {"message": f.col("why")}
    found = letters(raw, "dead", f.col("key"), f.col("value"), says, limit).toArrow()
    config = ProducerConfig(max_request_size=limit, batch_size=1)
    sealed = list(seal(found.to_batches(), topic="dead", config=config, partitions_of=lambda _: 1))
    assert sum(each.records for each in sealed) == len(rows)
    whole = 0
    for row, letter in zip(rows, found.to_pylist(), strict=True):
        said = {each["key"]: each["value"] for each in letter["headers"]}
        assert said["__pk.errors.offset"] == b"%d" % row[5]
        dropped = said.get("__pk.errors.dropped", b"").split(b", ")
        assert letter["value"] == (None if b"value" in dropped else row[1])
        assert letter["key"] == (None if b"key" in dropped else row[0])
        assert ("h" in said) == (b"headers" not in dropped)
        whole += dropped == [b""]
    assert 0 < whole < len(rows) - 1
