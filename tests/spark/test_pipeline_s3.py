"""A pipeline whose checkpoint, table and files are on S3: its driver is killed, and it continues
elsewhere. The parquet files are those of Spark's own sink, which lists them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from clients import topics
from clients.fixtures import Kafka
from clients.hadoop_jars import s3a_jars
from deltalake import DeltaTable
from pipeline_examples import append
from pyarrow import parquet
from s3_server import S3, s3_server

from pk.spark.files.store import Store, store_at

pytestmark = [pytest.mark.peer, pytest.mark.slow]

PIPELINE = """
name = "far"
checkpoint = "{bucket}/checkpoint"
[spark]
jars = {jars}
[[source]]
name = "orders"
topic = "{topic}"
value = "string"
options = {{ maxOffsetsPerTrigger = 100 }}
[[step]]
name = "numbers"
sql = "SELECT CAST(value AS BIGINT) AS id, partition FROM orders"
[[sink]]
name = "table"
from = "numbers"
delta = "{bucket}/table"
partition_by = ["partition"]
[[sink]]
name = "files"
from = "numbers"
parquet = "{bucket}/files"
"""

RUN = """
import os, signal, sys, time
from pathlib import Path
from pk.spark.files.store import store_at
from pk.spark.pipeline import table_sinks
from pk.spark.pipeline.definition import parse_pipeline
from pk.spark.pipeline.run import RunOptions, run_pipeline

at, bootstrap, files_url = sys.argv[1:]
plain = table_sinks.delta_add
files = store_at(files_url)
LISTED = "_spark_metadata/1"

def die(has_come):
    # The other sink's query runs beside this one.
    while not has_come(files.names()):
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGKILL)

def has_written(names):
    known = "".join(files.read(name).decode() for name in names if name == "_spark_metadata/0")
    return LISTED in names or any(
        name.endswith(".parquet") and known and name not in known for name in names
    )

def adds(store, added, schema, identity, batch, **given):
    if at == f"before {batch}":
        die(has_written)
    done = plain(store, added, schema, identity, batch, **given)
    if at == f"after {batch}":
        die(lambda names: LISTED in names)
    return done

table_sinks.delta_add = adds
pipeline = parse_pipeline(Path("p.toml").read_text(), "p.toml")
run_pipeline(pipeline, RunOptions({"kafka.bootstrap.servers": bootstrap}, once=True))
"""


def run(folder: Path, text: str, at: str, kafka: Kafka, server: S3, files: str) -> int:
    """How a process ends that runs the pipeline, in a directory of its own."""
    folder.mkdir()
    (folder / "p.toml").write_text(text)
    environ = os.environ | server.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", RUN, at, kafka.bootstrap, files],
        cwd=folder,
        env=environ,
        timeout=900,
        check=False,
    )
    return done.returncode


def listed_ids(store: Store) -> list[int]:
    """The rows that Spark's readers see, those of the files that Spark's sink has listed."""
    found: list[int] = []
    # Hadoop's file system also makes an object for the directory.
    for name in (each for each in store.names("_spark_metadata") if each[-1].isdecimal()):
        _, *entries = store.read(name).decode().splitlines()
        for entry in map(json.loads, entries):
            file = entry["path"].rpartition("/")[2]
            with store.open(file) as opened:
                found += parquet.read_table(opened, columns=["id"]).column("id").to_pylist()
    return found


def test_a_driver_that_is_killed_is_followed_by_another(
    pk_kafka: Kafka,
    fresh: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jars = json.dumps([str(jar) for jar in s3a_jars()])
    topic = topics.create_topic(pk_kafka, fresh("far"), 2)
    append(pk_kafka.bootstrap, topic, [str(n) for n in range(300)])
    with s3_server() as server:
        bucket = server.bucket("lake")
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        files = f"{bucket}/files"
        text = PIPELINE.format(bucket=bucket, jars=jars, topic=topic)
        for number, at in enumerate(("before 1", "after 1")):
            ended = run(tmp_path / str(number), text, at, pk_kafka, server, files)
            assert ended == -signal.SIGKILL, at
        assert run(tmp_path / "last", text, "", pk_kafka, server, files) == 0
        store = store_at(f"{bucket}/table")
        table = DeltaTable(store.url, storage_options=store.storage_options)
        found = sorted(table.to_pyarrow_table().column("id").to_pylist())
        assert found == list(range(300))
        listed = {each.removeprefix(f"{store.url}/") for each in table.file_uris()}
        there = {name for name in store.names() if name.endswith(".parquet")}
        assert there == listed, "what a dead attempt wrote is gone"
        assert sorted(listed_ids(store_at(files))) == list(range(300))
