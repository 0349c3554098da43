"""A pipeline whose checkpoint and table are at S3: its driver is killed, and it goes on
elsewhere."""

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
from s3_server import S3, s3_server

from pk.spark.files.store import store_at

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
from = "numbers"
delta = "{bucket}/table"
partition_by = ["partition"]
"""

RUN = """
import os, signal, sys
from pathlib import Path
from pk.spark.pipeline import table_sinks
from pk.spark.pipeline.definition import parse_pipeline
from pk.spark.pipeline.run import RunOptions, run_pipeline

at, bootstrap = sys.argv[1:]
plain = table_sinks.delta_add

def adds(store, files, schema, identity, batch, **given):
    if at == f"before {batch}":
        os.kill(os.getpid(), signal.SIGKILL)
    done = plain(store, files, schema, identity, batch, **given)
    if at == f"after {batch}":
        os.kill(os.getpid(), signal.SIGKILL)
    return done

table_sinks.delta_add = adds
pipeline = parse_pipeline(Path("p.toml").read_text(), "p.toml")
run_pipeline(pipeline, RunOptions({"kafka.bootstrap.servers": bootstrap}, once=True))
"""


def run(folder: Path, text: str, at: str, kafka: Kafka, server: S3) -> int:
    """How a process ends that runs the pipeline, in a directory of its own."""
    folder.mkdir()
    (folder / "p.toml").write_text(text)
    environ = os.environ | server.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", RUN, at, kafka.bootstrap],
        cwd=folder,
        env=environ,
        timeout=900,
        check=False,
    )
    return done.returncode


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
        text = PIPELINE.format(bucket=bucket, jars=jars, topic=topic)
        for number, at in enumerate(("before 1", "after 1")):
            ended = run(tmp_path / str(number), text, at, pk_kafka, server)
            assert ended == -signal.SIGKILL, at
        assert run(tmp_path / "last", text, "", pk_kafka, server) == 0
        store = store_at(f"{bucket}/table")
        table = DeltaTable(store.url, storage_options=store.storage_options)
        found = sorted(table.to_pyarrow_table().column("id").to_pylist())
        assert found == list(range(300))
        listed = {each.removeprefix(f"{store.url}/") for each in table.file_uris()}
        there = {name for name in store.names() if name.endswith(".parquet")}
        assert there == listed, "what a dead attempt wrote is gone"
