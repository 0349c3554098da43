"""Imports by a real Spark: every row is in the topic once, however the runs before ended, and an
export gives them back."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from clients import topics
from clients.fixtures import Kafka
from confluent_kafka import Consumer, TopicPartition
from pyarrow import parquet

from pk.cli.records.csv import csv_line
from pk.spark.errors import OptionError, SparkFailed
from pk.spark.importer.importer import import_rows
from pk.spark.importer.options import ImportOptions, ImportProgress, ImportRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.peer
Fresh = Callable[[str], str]
WAIT_S = 60


def options(kafka: Kafka, topic: str, source: Path, **given: Any) -> ImportOptions:
    return ImportOptions(
        bootstrap=kafka.bootstrap, topic=topic, source=str(source), cores=2, **given
    )


def committed(kafka: Kafka, topic: str, partitions: int) -> list[Any]:
    """The committed records, once no transaction is open."""
    topics.wait_until_none_is_open(kafka, topic, partitions)
    return topics.committed_messages(kafka, topic, partitions)


def write_parquet(folder: Path, files: int, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        ids = range(number * rows, (number + 1) * rows)
        columns = {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([f"name-{n}" for n in ids]),
            "at": pa.array([1_700_000_000_000 + n for n in ids], pa.timestamp("ms", "UTC")),
        }
        parquet.write_table(pa.table(columns), folder / f"part-{number:04}.parquet")


def test_rows_become_records_by_expressions(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    # Kept for ever, or retention would come upon records this old in the middle of the test.
    topic = topics.create_topic(apache, fresh("import"), 3, {"retention.ms": "-1"})
    write_parquet(tmp_path / "rows", 4, 500)
    given = options(
        apache,
        topic,
        tmp_path / "rows",
        key="id",
        timestamp="at",
        headers=(("source", "'files'"), ("double", "id * 2"), ("none", "CAST(NULL AS STRING)")),
        partition="id % 3",
    )
    states: list[ImportProgress] = []
    summary = import_rows(given, states.append, spark)
    assert (summary.records, summary.records_before) == (2_000, 0)
    assert [f.portions for f in summary.files] == [1] * 4
    found = committed(apache, topic, 3)
    assert len(found) == 2_000
    for message in found:
        row = json.loads(message.value())
        n = row["id"]
        assert row["name"] == f"name-{n}" and message.key() == b"%d" % n
        assert message.timestamp()[1] == 1_700_000_000_000 + n
        assert message.partition() == n % 3
        assert message.headers() == [
            ("source", b"files"),
            ("double", b"%d" % (2 * n)),
            ("none", None),
        ]
    assert sorted(int(m.key()) for m in found) == list(range(2_000))
    again = import_rows(given, spark=spark)
    assert (again.records, again.records_before) == (0, 2_000)
    write_parquet(tmp_path / "more", 5, 500)
    (tmp_path / "more" / "part-0004.parquet").rename(tmp_path / "rows" / "part-0004.parquet")
    more = import_rows(given, spark=spark)
    assert (more.records, more.records_before) == (500, 2_000), "a file that came since"
    with pytest.raises(ImportRefused, match="has key id, not name: continue with the same"):
        import_rows(replace(given, key="name"), spark=spark)
    with pytest.raises(OptionError, match="--key 'nmae' is not an expression"):
        import_rows(replace(given, key="nmae", import_id=fresh("id")), spark=spark)
    with pytest.raises(ImportRefused, match="combines rows"):
        mixing = replace(given, key="count(*) OVER (PARTITION BY name)", import_id=fresh("id"))
        import_rows(mixing, spark=spark)
    write_parquet(tmp_path / "rows", 1, 400)
    with pytest.raises(ImportRefused, match="has changed since some of its rows were imported"):
        import_rows(given, spark=spark)
    assert len(committed(apache, topic, 3)) == 2_500


@pytest.mark.slow
def test_text_is_read_as_asked_and_bad_lines_are_errors(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create_topic(apache, fresh("import"), 1)
    folder = tmp_path / "rows"
    folder.mkdir()
    for number in range(3):
        with gzip.open(folder / f"{number}.csv.gz", "wt", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "text"])
            writer.writerows([number * 10 + n, f"a,b\n{n}"] for n in range(10))
    given = options(
        apache, topic, folder, key="id", read={"multiLine": "true"}, schema="id INT, text STRING"
    )
    assert import_rows(given, spark=spark).records == 30
    lines = tmp_path / "rows.jsonl"
    lines.write_text(
        "".join(f'{{"id": {n}, "deep": {{"er": [{n}]}}}}\n' for n in range(100, 5_100))
    )
    blocks = options(apache, topic, lines, key="id", value="deep", block_bytes=10_000)
    summary = import_rows(blocks, spark=spark)
    assert summary.records == 5_000 and summary.files[0].portions > 10
    assert import_rows(blocks, spark=spark).records == 0
    values = {m.key(): json.loads(m.value()) for m in committed(apache, topic, 1)}
    assert len(values) == 5_030
    assert values[b"12"] == {"id": 12, "text": "a,b\n2"} and values[b"4000"] == {"er": [4_000]}
    lines.write_text('{"id": 1}\n{"id": 2\n')
    with pytest.raises(SparkFailed, match=r"rows\.jsonl, line 2: the value is not JSON: "):
        import_rows(replace(blocks, import_id=fresh("id"), value=None), spark=spark)
    with pytest.raises(OptionError, match="csv has no option mode=PERMISSIVE; the options are "):
        import_rows(replace(given, read={"mode": "PERMISSIVE"}), spark=spark)


@pytest.mark.slow
def test_lines_pass_as_they_are_and_rows_go_over_blocks(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create_topic(apache, fresh("import"), 1)
    lines = [
        '{"x":{"y":[5,{"z":"ß"}]},  "at":"2026-01-01T00:00:00.123456Z", "n": 1.10}',
        '{"n":1e400,"n2":12345678901234567890123,"x":null}',
    ]
    file = tmp_path / "rows.jsonl"
    file.write_bytes(("\ufeff" + "\r\n\n".join(lines)).encode())
    given = options(apache, topic, file, key="x", headers=(("n", "n"), ("is", "'it'")))
    assert import_rows(given, spark=spark).records == 2
    found = committed(apache, topic, 1)
    assert [(m.key(), m.value()) for m in found] == [
        ('{"y":[5,{"z":"ß"}]}'.encode(), lines[0].encode()),
        (None, lines[1].encode()),
    ]
    assert [m.headers()[0] for m in found] == [("n", b"1.10"), ("n", b"1e400")]
    with pytest.raises(OptionError, match="--key 'nmae'.*no line has the field nmae"):
        import_rows(replace(given, key="nmae", import_id=fresh("id")), spark=spark)
    with pytest.raises(OptionError, match="n2 has values of several types"):
        import_rows(replace(given, key="n2 + 1", import_id=fresh("id")), spark=spark)

    topic = topics.create_topic(apache, fresh("import"), 1)
    file = tmp_path / "rows.csv"
    rows = [(str(n), f'a "{n}"\n\nb,', "" if n % 2 else None) for n in range(300)]
    text = "".join(map(csv_line, [("id", "text", "empty"), *rows]))
    file.write_text(text)
    blocks = options(apache, topic, file, key="id", block_bytes=50)
    summary = import_rows(blocks, spark=spark)
    assert summary.records == 300 and summary.files[0].portions > 100
    values = [json.loads(m.value()) for m in committed(apache, topic, 1)]
    assert [(v["id"], v["text"], v["empty"]) for v in values] == rows
    file.write_text(text + "1,2\n")
    with pytest.raises(
        SparkFailed, match="rows.csv, line 902: the row has 2 fields, but the table has 3"
    ):
        import_rows(replace(blocks, value="id", import_id=fresh("id")), spark=spark)


@pytest.mark.slow
def test_tables_are_read_at_the_version_of_the_first_run(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    from deltalake import DeltaTable, write_deltalake
    from pyiceberg.catalog.sql import SqlCatalog

    def rows(begin: int, end: int) -> pa.Table:
        days = [f"2026-01-0{n % 3 + 1}" for n in range(begin, end)]
        return pa.table({"id": pa.array(range(begin, end), pa.int64()), "day": pa.array(days)})

    delta = tmp_path / "delta"
    for n in range(3):
        write_deltalake(delta, rows(n * 100, n * 100 + 100), mode="append", partition_by=["day"])
    topic = topics.create_topic(apache, fresh("import"), 1)
    assert import_rows(options(apache, topic, delta, key="id"), spark=spark).records == 300
    DeltaTable(delta).optimize.compact()
    write_deltalake(delta, rows(300, 400), mode="append", partition_by=["day"])
    assert import_rows(options(apache, topic, delta, key="id"), spark=spark).records == 0
    newer = options(apache, topic, delta, key="id", import_id=fresh("id"))
    assert import_rows(newer, spark=spark).records == 400
    found = [json.loads(m.value()) for m in committed(apache, topic, 1)]
    assert sorted(r["id"] for r in found) == sorted([*range(300), *range(400)])
    assert all(r["day"] == f"2026-01-0{r['id'] % 3 + 1}" for r in found)

    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("k")
    table = catalog.create_table("k.rows", rows(0, 1).schema)
    for n in range(3):
        table.append(rows(n * 100, n * 100 + 100))
    place = Path(table.location().removeprefix("file://"))
    topic = topics.create_topic(apache, fresh("import"), 1)
    given = options(apache, topic, place, key="id")
    assert import_rows(given, spark=spark).records == 300
    assert import_rows(given, spark=spark).records == 0
    assert sorted(int(m.key()) for m in committed(apache, topic, 1)) == list(range(300))


_RUN = """
import sys
from pk.spark.importer.importer import import_rows
from pk.spark.importer.options import ImportOptions
bootstrap, topic, source, block = sys.argv[1:]
options = ImportOptions(
    bootstrap=bootstrap, topic=topic, source=source, key="id", cores=2, block_bytes=int(block)
)
summary = import_rows(options)
print(summary.records_before + summary.records)
"""


def killed_imports(
    kafka: Kafka, topic: str, source: Path, kills: int, rows: int, block: int
) -> None:
    """Imports while runs are killed, each after some of its transactions; then one run to the
    end."""
    words = [sys.executable, "-c", _RUN, kafka.bootstrap, topic, str(source), str(block)]
    done = 0
    chance = random.Random(kills)
    for _ in range(kills):
        target = done + chance.randrange(rows // (4 * kills))
        process = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
        deadline = time.monotonic() + 900
        while process.poll() is None:
            high = end_of(kafka, topic)
            if high > target:
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()  # the driver alone: its Java and Python workers notice
        process.communicate()
        done = end_of(kafka, topic)
    finished = subprocess.run(words, capture_output=True, text=True, check=True, timeout=1_200)
    assert int(finished.stdout) == rows


def end_of(kafka: Kafka, topic: str) -> int:
    """The end of partition 0, including uncommitted records."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic, "log_level": 0})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)[1]
    finally:
        consumer.close()


def check_equal(kafka: Kafka, topic: str, source: Path, out: Path, spark: SparkSession) -> None:
    """An export of the topic equals the source."""
    from pk.spark.export.exporter import ExportOptions, export

    client = {"isolation.level": "read_committed"}
    export(
        ExportOptions(
            bootstrap=kafka.bootstrap,
            topic=topic,
            directory=out,
            client=client,
            value="json",
            value_schema="id BIGINT, name STRING, at TIMESTAMP",
        ),
        spark=spark,
    )
    found = spark.read.parquet(str(out)).select("value.id", "value.name", "value.at")
    wanted = spark.read.parquet(str(source))
    assert found.exceptAll(wanted).count() == 0 and wanted.exceptAll(found).count() == 0


@pytest.mark.slow
def test_an_import_that_is_killed_again_and_again_is_exact(
    apache: Kafka,
    fresh: Fresh,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PK_IMPORT_KILLS and PK_IMPORT_ROWS make it larger: docs/spark/import.md."""
    kills = int(os.environ.get("PK_IMPORT_KILLS", "3"))
    rows = int(os.environ.get("PK_IMPORT_ROWS", "100000"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    topic = topics.create_topic(apache, fresh("import"), 2)
    write_parquet(tmp_path / "rows", 40, rows // 40)
    block = max(path.stat().st_size for path in (tmp_path / "rows").iterdir())
    killed_imports(apache, topic, tmp_path / "rows", kills, rows // 40 * 40, block)
    check_equal(apache, topic, tmp_path / "rows", tmp_path / "out", spark)
