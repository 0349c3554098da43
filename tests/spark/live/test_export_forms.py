"""Exports in every form, by a real Spark: partitioned, as tables, at a URL, of several topics, and
followed. They contain the produced records, and other readers can read them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from clients import topics
from clients.fixtures import Kafka
from confluent_kafka import Producer
from pipeline_examples import append
from pyiceberg.utils.config import Config
from s3_server import S3, s3_server

from pk.core.errors import KafkaError
from pk.spark.errors import DirectoryRefused, OptionError
from pk.spark.export.exporter import (
    COMPACTED,
    ExportOptions,
    Summary,
    export,
    export_topics,
    follow,
)
from pk.spark.export.manifest import MANIFEST, Manifest
from pk.spark.files.store import store_at
from pk.spark.tables.small_files import delta_small_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Fresh = Callable[[str], str]
Row = tuple[int, int]
COUNTRIES = ("DE", "a/b", "ä ö", None, "x=y")
LAYOUT = ("date,country", "half=pmod(offset, 2)")
DAY_MS = 86_400_000
NOW_MS = int(time.time() * 1000)
WAIT_S = 120
FORMS = ("parquet", "delta", "iceberg", "url", "url delta", "url iceberg")

pytestmark = pytest.mark.peer
"""No peer, but a JVM."""


@pytest.fixture(scope="module")
def s3(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """A server that this process and Spark's workers know by their environments."""
    with pytest.MonkeyPatch.context() as patch, s3_server() as server:
        server.bucket("exports")
        folder = tmp_path_factory.mktemp("catalog")
        catalog = {"TYPE": "sql", "URI": f"sqlite:///{folder}/shop.db", "WAREHOUSE": "s3://exports"}
        named = {f"PYICEBERG_CATALOG__SHOP__{name}": value for name, value in catalog.items()}
        of_workers: dict[str, str] = spark.sparkContext.environment
        for name, value in (server.environ | named).items():
            patch.setenv(name, value)
            patch.setitem(of_workers, name, value)
        patch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # reads the environment now
        yield server


@pytest.fixture
def server(request: pytest.FixtureRequest, form: str) -> S3 | None:
    """The server, for exports at a URL."""
    return request.getfixturevalue("s3") if form.startswith("url") else None


def options(kafka: Kafka, topic: str, directory: Path | str, **given: Any) -> ExportOptions:
    return ExportOptions(
        bootstrap=kafka.bootstrap, topic=topic, directory=directory, cores=2, **given
    )


def produce(kafka: Kafka, topic: str, begin: int, end: int) -> None:
    """Orders by number, over three days and two partitions."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for n in range(begin, end):
        value = json.dumps({"id": n, "country": COUNTRIES[n % len(COUNTRIES)]})
        at = NOW_MS - (3 - n % 3) * DAY_MS
        producer.produce(topic, value, str(n), partition=n % 2, timestamp=at)
        producer.poll(0)
    assert producer.flush(topics.TIMEOUT_S) == 0


def ids(place: Path | str, form: str) -> list[int]:
    """The orders that a reader of others finds, in order."""
    if form.endswith("delta"):
        from deltalake import DeltaTable

        options = store_at(place).storage_options
        lake = DeltaTable(str(place), storage_options=options).to_pyarrow_dataset()
        assert lake is not None
        found = duckdb.execute("SELECT value.id FROM lake").fetchall()
        return sorted(row[0] for row in found)
    if form.endswith("iceberg"):
        from pyiceberg.catalog import load_catalog
        from pyiceberg.catalog.sql import SqlCatalog

        if form == "iceberg":
            catalog = SqlCatalog("pk", uri=f"sqlite:///{place}/_pk_catalog.db")
            of_iceberg = catalog.load_table("pk.export")
        else:
            catalog = load_catalog("shop", **store_at(place).iceberg_properties)
            of_iceberg = catalog.load_table(name_of(place).removeprefix("shop."))
        found = of_iceberg.scan().to_arrow().column("value").to_pylist()
        return sorted(value["id"] for value in found)
    if form == "url":
        from pyarrow import parquet

        store = store_at(place)
        manifest = Manifest.load(store.read(MANIFEST).decode())
        seen: list[int] = []
        for name in manifest.files:
            with store.open(name) as file:
                seen += [v["id"] for v in parquet.read_table(file).column("value").to_pylist()]
        return sorted(seen)
    rows = duckdb.execute(
        f"SELECT value.id FROM read_parquet('{place}/**/*.parquet', hive_partitioning = true)"
    ).fetchall()
    return sorted(row[0] for row in rows)


def place_of(form: str, tmp_path: Path, name: str) -> Path | str:
    return f"s3://exports/{name}/orders" if form.startswith("url") else tmp_path / "out"


def name_of(place: Path | str) -> str:
    """The Iceberg table at a URL."""
    return f"shop.exports.{str(place).split('/')[3]}"


def table_options(form: str, place: Path | str) -> dict[str, Any]:
    """The options of an export of a form."""
    kind = form.rpartition(" ")[2]
    found: dict[str, Any] = {"table": kind} if kind in ("delta", "iceberg") else {}
    return found | ({"table_name": name_of(place)} if form == "url iceberg" else {})


@pytest.mark.parametrize(
    "form", [pytest.param(f, marks=() if f == "delta" else pytest.mark.slow) for f in FORMS]
)
def test_each_form_is_exported_resumed_and_overwritten(
    pk_kafka: Kafka,
    fresh: Fresh,
    spark: SparkSession,
    server: S3 | None,
    tmp_path: Path,
    form: str,
) -> None:
    topic = topics.create_topic(pk_kafka, fresh("form"), 2)
    produce(pk_kafka, topic, 0, 60)
    place = place_of(form, tmp_path, topic)
    given = {"value": "json", "partition_by": LAYOUT} | table_options(form, place)
    summary = export(options(pk_kafka, topic, place, **given), spark=spark)
    if server is not None:
        read = [each.path for each in server.requests if each.method == "GET"]
        of_data = [path for path in read if topic in path and ".parquet" in path]
        assert of_data == [], "no byte of the data was read"
    assert (summary.records, summary.files) == (60, 3 * 5 * 2 * 2)
    assert ids(place, form) == list(range(60))
    produce(pk_kafka, topic, 60, 90)
    resumed = export(options(pk_kafka, topic, place, mode="resume"), spark=spark)
    assert (resumed.records, resumed.records_before) == (30, 60)
    assert ids(place, form) == list(range(90))
    assert export(options(pk_kafka, topic, place, mode="resume"), spark=spark).records == 0
    assert ids(place, form) == list(range(90))
    with pytest.raises(OptionError, match="has the layout date,country, half=.*, not topic"):
        other = options(pk_kafka, topic, place, mode="resume", partition_by=("topic",))
        export(other, spark=spark)
    with pytest.raises(DirectoryRefused, match="resume it, or overwrite it"):
        export(options(pk_kafka, topic, place, **given), spark=spark)
    over = export(options(pk_kafka, topic, place, mode="overwrite", **given), spark=spark)
    assert (over.records, over.records_before) == (90, 0)
    assert ids(place, form) == list(range(90))


def values(place: Path, form: str) -> list[dict[str, Any]]:
    """The values in the order of their offsets, as readers of others find them."""
    if form == "delta":
        from deltalake import DeltaTable

        rows = DeltaTable(place).to_pyarrow_table()
    elif form == "iceberg":
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("pk", uri=f"sqlite:///{place}/_pk_catalog.db")
        rows = catalog.load_table("pk.export").scan().to_arrow()
    else:
        files = f"read_parquet('{place}/*.parquet', union_by_name = true)"
        found = duckdb.execute(f'SELECT value FROM {files} ORDER BY "offset"').fetchall()
        return [value for (value,) in found]
    return rows.sort_by("offset").column("value").to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_a_resumed_export_takes_new_fields_if_it_is_told(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path, form: str
) -> None:
    topic = topics.create_topic(pk_kafka, fresh("form"), 1)
    runs: tuple[tuple[list[dict[str, Any]], bool], ...] = (
        ([{"id": 1, "who": {"a": 1}}], False),
        ([{"id": 2, "who": {"a": 2, "b": "x"}, "coupon": 7}, {"id": 3.5, "new": True}], True),
        ([{"id": 4, "coupon": 8, "more": 1}], False),
        ([{"id": 5, "who": {"b": "y", "c": [1]}}], True),
    )
    given: dict[str, Any] = {"value": "json"} | table_options(form, tmp_path)
    summaries: list[Summary] = []
    for records, evolve in runs:
        append(pk_kafka.bootstrap, topic, map(json.dumps, records))
        given["evolve"] = evolve
        summaries.append(export(options(pk_kafka, topic, tmp_path / "out", **given), spark=spark))
        given = {"mode": "resume"}
    empty = {"id": None, "who": None, "coupon": None, "new": None, "_corrupt_record": None}
    bad = '{"id": 3.5, "new": true}'
    assert values(tmp_path / "out", form) == [
        empty | {"id": 1, "who": {"a": 1, "b": None, "c": None}},
        empty | {"id": 2, "who": {"a": 2, "b": "x", "c": None}, "coupon": 7},
        empty | {"new": True, "_corrupt_record": bad},
        empty | {"id": 4, "coupon": 8},
        empty | {"id": 5, "who": {"a": None, "b": "y", "c": [1]}},
    ]
    assert [each.unparsed for each in summaries] == [{}, {"value": 1}, {}, {}]
    assert [bool(each.unknown_fields) for each in summaries] == [False, False, True, False]


@pytest.mark.slow
def test_directories_have_the_values_and_readers_get_them_back(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create_topic(pk_kafka, fresh("layout"), 2)
    produce(pk_kafka, topic, 0, 30)
    given = options(
        pk_kafka, topic, tmp_path, value="json", partition_by=("date,hour,topic,partition,country",)
    )
    export(given, spark=spark)
    found = spark.read.parquet(str(tmp_path))
    assert {(r["topic"], r["partition"]) for r in found.collect()} == {(topic, 0), (topic, 1)}
    wrong = found.where(
        "date <> cast(timestamp AS date) OR hour <> hour(timestamp) "
        "OR NOT country <=> value.country"
    )
    assert (found.count(), wrong.count()) == (30, 0)
    with pytest.raises(OptionError, match="value have no field city"):
        bad = options(pk_kafka, topic, tmp_path / "a", value="json", partition_by=("city",))
        export(bad, spark=spark)
    with pytest.raises(OptionError, match="fields need --value json"):
        export(options(pk_kafka, topic, tmp_path / "a", partition_by=("city",)), spark=spark)
    with pytest.raises(OptionError, match=r"--partition-by: .*nothing"):
        export(options(pk_kafka, topic, tmp_path / "a", partition_by=("x=nothing",)), spark=spark)
    with pytest.raises(OptionError, match="all is a array<.*not a single value"):
        bad = options(pk_kafka, topic, tmp_path / "a", partition_by=("all=headers",))
        export(bad, spark=spark)
    assert not (tmp_path / "a").exists()


@pytest.mark.slow
def test_several_topics_have_an_export_each(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    names = [topics.create_topic(pk_kafka, fresh("several"), 2) for _ in range(2)]
    for count, name in enumerate(names, 2):
        produce(pk_kafka, name, 0, count * 10)
    given = [
        options(pk_kafka, name, tmp_path / name, value="json", mode="resume") for name in names
    ]
    assert [s.records for s in export_topics(given, spark=spark)] == [20, 30]
    produce(pk_kafka, names[1], 30, 35)
    assert [s.records for s in export_topics(given, spark=spark)] == [0, 5]
    assert [ids(tmp_path / name, "parquet") for name in names] == [list(range(20)), list(range(35))]


class Ended(Exception):
    """Ends `follow` in a test, as Ctrl-C does for a user."""


def test_a_followed_export_takes_what_comes_and_goes_on_later(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    first, later = (topics.create_topic(pk_kafka, fresh("follow"), 2) for _ in range(2))
    produce(pk_kafka, first, 0, 10)
    given = [
        options(pk_kafka, name, tmp_path / name, mode="resume", table="delta")
        for name in (first, later)
    ]
    seen: list[tuple[str, int]] = []

    def done(summary: Summary) -> None:
        """Each run brings the next records, or the end."""
        seen.append((summary.topic, summary.records))
        more = {2: (later, 0, 7), 3: (first, 10, 13)}.get(len(seen))
        if more is not None:
            producing = threading.Thread(target=produce, args=(pk_kafka, *more))
            producing.start()
        total = sum(records for _, records in seen)
        if total == 20:
            raise Ended

    with pytest.raises(Ended):
        follow(given, done, spark=spark, every_s=0.0)
    assert seen[:2] == [(first, 10), (later, 0)]
    counts = {name: sum(n for topic, n in seen if topic == name) for name in (first, later)}
    assert counts == {first: 13, later: 7}
    produce(pk_kafka, later, 7, 9)
    assert [s.records for s in export_topics(given, spark=spark)] == [0, 2]
    topics.admin(pk_kafka).delete_topics([later])[later].result(topics.TIMEOUT_S)
    with pytest.raises((KafkaError, DirectoryRefused)):
        follow(given, lambda _: None, spark=spark, every_s=0.0)


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("form", ["delta", pytest.param("url delta", marks=pytest.mark.slow)])
def test_a_followed_table_is_compacted_and_goes_on(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path, form: str
) -> None:
    topic = topics.create_topic(pk_kafka, fresh("compact"), 2)
    produce(pk_kafka, topic, 0, 20)
    place = place_of(form, tmp_path, topic)
    given = options(pk_kafka, topic, place, mode="resume", table="delta", value="json")
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if len(said) == 2:
            raise Ended
        produce(pk_kafka, topic, 20, 30)

    with pytest.raises(Ended):
        follow([replace(given, compact_s=0.001)], lambda _: None, spark=spark, every_s=0, say=say)
    assert said[0] == f"{topic}: 2 files of the table were compacted to 1."
    store = store_at(place)
    assert delta_small_files(store) == 1 and ids(place, form) == list(range(30))
    assert COMPACTED in store.names()
    produce(pk_kafka, topic, 30, 35)
    assert export(given, spark=spark).records == 5
    assert ids(place, form) == list(range(35))


_KILLED = r"""
import json, os, signal, sys, time
import obstore
from pk.spark.export import exporter
from pk.spark.export.exporter import ExportOptions, export, follow

bootstrap, topic, place, table, at, follows = sys.argv[1:]
options = ExportOptions(
    bootstrap=bootstrap, topic=topic, directory=place, cores=2, mode="resume", value="json",
    partition_by=("date,country",), **json.loads(table),
)

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def after(step, count):
    def audit(event, args):
        nonlocal count
        if event in ("os.rename", "os.mkdir", "obstore.put") and running:
            count -= 1
            if count == 0:
                die()
    def put(*args, **given):
        audit("obstore.put", ())
        return plain(*args, **given)
    running, plain = [], obstore.put
    if step == "committing":
        sys.addaudithook(audit)
        obstore.put = put
    return running

step, _, count = at.partition(" ")
running = after(step, int(count or 1))

def progress(state):
    if state.stage == "finishing":
        running.append(1)
        if step == "written":
            die()
    if step == "writing" and state.stage == "exporting" and state.records > 0:
        die()

if step == "table":
    exporter.settle = die
if follows:
    follow([options], lambda summary: print(summary.records, flush=True), progress, every_s=0)
print(export(options, progress).records, flush=True)
"""


def _run(kafka: Kafka, topic: str, place: Path | str, form: str, at: str, tmp: Path) -> Any:
    table = table_options(form, place)
    words = [kafka.bootstrap, topic, str(place), json.dumps(table), at, ""]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp)}
    return subprocess.run(
        [sys.executable, "-c", _KILLED, *words],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
        timeout=900,
        check=False,
    )


STEPS: dict[str, Sequence[str]] = {
    "parquet": ("writing", "committing 2", "committing 9"),
    "delta": ("writing", "committing 5", "table"),
    "iceberg": ("writing", "committing 5", "table"),
    "url": ("written", "committing 1"),
    "url delta": ("written", "committing 1", "table"),
    "url iceberg": ("written", "committing 1", "table"),
}


@pytest.mark.slow
@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("form", FORMS)
def test_a_killed_run_of_each_form_is_made_good(
    pk_kafka: Kafka, fresh: Fresh, tmp_path: Path, form: str
) -> None:
    topic = topics.create_topic(pk_kafka, fresh("killed"), 2)
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    place = place_of(form, tmp_path, topic)
    total = 0
    for at in STEPS[form]:
        produce(pk_kafka, topic, total, total + 3_000)
        total += 3_000
        killed = _run(pk_kafka, topic, place, form, at, tmp)
        assert killed.returncode == -signal.SIGKILL, (at, killed)
        whole = _run(pk_kafka, topic, place, form, "", tmp)
        assert whole.returncode == 0, (at, whole)
        assert ids(place, form) == list(range(total)), at
    if not form.startswith("url"):
        manifest = Manifest.load((tmp_path / "out" / MANIFEST).read_text())
        kept = {str(p.relative_to(place)) for p in (tmp_path / "out").rglob("*-*-*.parquet")}
        assert kept == manifest.files
