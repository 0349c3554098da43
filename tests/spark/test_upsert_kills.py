"""Tables that are kept by changes: the driver is killed at each step of a batch, and each batch is
in each table once.

One pipeline feeds Delta, Iceberg and a database. Its process is killed when all three have reached
the same step, so each step costs one start of Spark.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from clients import topics
from clients.fixtures import Kafka
from clients.jdbc_driver import sqlite_driver
from deltalake import DeltaTable
from pipeline_examples import append
from pyiceberg.catalog import load_catalog

pytestmark = [pytest.mark.peer, pytest.mark.slow]

KEYS = 12
CHANGES = 120
A_BATCH = 40
CATALOG = {"type": "sql", "uri": "sqlite:///c.db", "warehouse": "w"}
PIPELINE = """
name = "kept"
checkpoint = "checkpoint"
[spark]
jars = ["{jar}"]
[[source]]
name = "changes"
topic = "{topic}"
value = "json"
fields = "op STRING, id INT, n INT"
options = {{ maxOffsetsPerTrigger = {a_batch} }}
[[step]]
name = "rows"
sql = "SELECT value.*, offset FROM changes"
"""
SINK = """
[[sink]]
name = "{name}"
from = "rows"
{target}
mode = "upsert"
key = ["id"]
delete = "op = 'd'"
leave_out = ["op", "offset"]
"""
TARGETS = {
    "delta": 'delta = "t"',
    "iceberg": 'iceberg = "a.t"\ncatalog = { uri = "sqlite:///c.db", warehouse = "w" }',
    "jdbc": 'jdbc = "jdbc:sqlite:t.db"\ntable = "t"',
}

RUN = """
import os, signal, sys, threading
from pathlib import Path
from pyiceberg.catalog.sql import SqlCatalog
from pk.spark.pipeline import table_sinks
from pk.spark.pipeline.definition import parse_pipeline
from pk.spark.pipeline.jdbc_sink import Database
from pk.spark.pipeline.run import RunOptions, run_pipeline
from pk.spark.tables import lake_commit

at, bootstrap = sys.argv[1:]
all_are_there = threading.Barrier(3, lambda: os.kill(os.getpid(), signal.SIGKILL))

def reaches(step):
    if step == at:
        all_are_there.wait()

def makes(plain, is_table=lambda *_: True):
    def make(*given, **more):
        found = plain(*given, **more)
        if is_table(*given):
            reaches("made")
        return found
    return make

def commits(name, plain):
    def commit(*given, **more):
        batch = given[-1]
        reaches(f"before {batch}")
        plain(*given, **more)
        with open("committed", "a") as file:
            file.write(f"{name} {batch}\\n")
        reaches(f"after {batch}")
    return commit

lake_commit._delta_with = makes(lake_commit._delta_with)
SqlCatalog.create_table = makes(SqlCatalog.create_table, lambda *given: given[1] == "a.t")
Database.create = makes(Database.create, lambda *given: given[1] == "t")
table_sinks.delta_merge = commits("delta", table_sinks.delta_merge)
table_sinks.iceberg_merge = commits("iceberg", table_sinks.iceberg_merge)
Database.commit = commits("jdbc", Database.commit)
pipeline = parse_pipeline(Path("p.toml").read_text(), "p.toml")
run_pipeline(pipeline, RunOptions({"kafka.bootstrap.servers": bootstrap}, once=True))
"""


def run(folder: Path, at: str, bootstrap: str) -> int:
    """How a process ends that runs the pipeline."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, at, bootstrap],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=900,
        check=False,
    )
    return done.returncode


def changes(chance: random.Random) -> tuple[list[str], list[tuple[int, int]]]:
    """Changes, and the rows of a table after all of them."""
    rows: dict[int, int] = {}
    found: list[str] = []
    for n in range(CHANGES):
        id = chance.randrange(KEYS)
        op = "d" if id in rows and chance.random() < 0.4 else "u"
        if op == "d":
            del rows[id]
        else:
            rows[id] = n
        found.append(json.dumps({"op": op, "id": id, "n": n}))
    return found, sorted(rows.items())


def test_a_driver_that_is_killed_at_each_step_leaves_exact_tables(
    pk_kafka: Kafka, fresh: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    jar = shutil.copy(sqlite_driver(), tmp_path)
    topic = topics.create_topic(pk_kafka, fresh("kept"), 1)
    given, wanted = changes(random.Random(7))
    append(pk_kafka.bootstrap, topic, given)
    text = PIPELINE.format(topic=topic, jar=jar, a_batch=A_BATCH)
    text += "".join(SINK.format(name=name, target=target) for name, target in TARGETS.items())
    (tmp_path / "p.toml").write_text(text)
    for at in ("made", "before 1", "after 1"):
        assert run(tmp_path, at, pk_kafka.bootstrap) == -signal.SIGKILL, at
    assert run(tmp_path, "", pk_kafka.bootstrap) == 0

    database = sqlite3.connect("t.db")
    assert database.execute("SELECT id, n FROM t ORDER BY id").fetchall() == wanted
    database.close()
    delta = DeltaTable("t").to_pyarrow_table()
    iceberg = load_catalog("default", **CATALOG).load_table("a.t").scan().to_arrow()
    for table in (delta, iceberg):
        assert sorted(zip(*table.select(["id", "n"]).to_pydict().values(), strict=True)) == wanted
    committed = sorted((tmp_path / "committed").read_text().splitlines())
    batches = range(CHANGES // A_BATCH)
    assert committed == [f"{name} {batch}" for name in TARGETS for batch in batches], "once each"
