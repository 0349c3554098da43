"""docs/spark: each command line is one of pk, and (slow: with Spark) does what the pages say, as
does the program of export.md. Those of the other pages run in test_streams.py and
schemas/test_through_spark.py, the job that cluster.md describes in test_machines.py."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from clients import topics
from clients.fixtures import Kafka
from clients.jdbc_driver import sqlite_driver
from clients.pk_broker import PkBroker, pk_command, pk_environment
from each import for_each
from pyarrow import dataset
from s3_server import s3_server
from spark_servers import connect_server, standalone

from pk.cli.command_line.parse import parse
from pk.spark.export.manifest import MANIFEST, Manifest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "spark"
ORDER = ("export.md", "import.md", "index.md", "cluster.md")
BLOCKS = [
    block
    for page in ORDER
    for block in re.findall(
        r"(?ms)^```(\w*)\n(.*?)^```$", (PAGES / page).read_text(encoding="utf-8")
    )
]
COMMANDS = [line for kind, block in BLOCKS if not kind for line in block.splitlines()]
PROGRAMS = [block for kind, block in BLOCKS if kind]
TIMEOUT_S = 900


def test_the_pages_have_their_commands() -> None:
    assert len(COMMANDS) == 19
    assert len(PROGRAMS) == 1


@for_each("line", COMMANDS)
def test_each_command_of_the_pages_is_one(line: str) -> None:
    assert parse(shlex.split(line)[1:]).path[0] in ("spark-export", "spark-import", "spark")


def prepare(kafka: Kafka, folder: Path) -> None:
    """Prepare what the pages' commands use: topics, files, a database and its driver."""
    orders = [json.dumps({"id": n, "customer": "ab"[n % 2]}) for n in range(40)]
    for name in ("orders", "payments", "products"):
        topics.create_topic(kafka, name, 2)
    for name in ("orders", "payments"):
        subprocess.run(
            pk_command("produce", name),
            input="\n".join(orders),
            text=True,
            check=True,
            env=environment(kafka, folder),
        )
    rows = "".join(f"{n},name-{n},2026-01-01T00:00:{n:02}Z\n" for n in range(20))
    (folder / "orders.csv").write_text(f"id,name,created_at\n{rows}")
    database = sqlite3.connect(folder / "shop.db")
    database.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT)")
    database.executemany("INSERT INTO products VALUES (?, ?)", [(n, "p") for n in range(7)])
    database.commit()
    shutil.copy(sqlite_driver(), folder)


def environment(kafka: Kafka, folder: Path) -> dict[str, str]:
    # The archive of classes that `pk spark warm-up` makes must not stay.
    cache = {"XDG_CACHE_HOME": str(folder / "cache")}
    return pk_environment() | {"PK_BOOTSTRAP_SERVER": kafka.bootstrap} | cache


def follow(words: list[str], kafka: Kafka, folder: Path) -> None:
    """A command that runs until Ctrl-C must print its output before that."""
    following = subprocess.Popen(
        pk_command(*words),
        cwd=folder,
        env=environment(kafka, folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        topics.produce(kafka, "orders", 1, 3)
        assert following.stderr is not None
        assert "more" in following.stderr.readline()
        following.send_signal(signal.SIGINT)
        _, said = following.communicate(timeout=TIMEOUT_S)
    finally:
        following.kill()
        following.wait()
    assert following.returncode == 0, said


@pytest.mark.slow
def test_the_commands_of_the_pages_run(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with (
        PkBroker() as broker,
        standalone(tmp_path / "cluster") as master,
        connect_server(tmp_path / "connect") as remote,
        s3_server() as s3,
    ):
        kafka = Kafka("pk", broker.bootstrap, tmp_path)
        s3.bucket("bucket")
        environ = environment(kafka, folder) | s3.environ
        prepare(kafka, folder)
        for line in COMMANDS:
            here = (
                line.replace("spark://host:7077", master)
                .replace("sc://host:15002", remote)
                .replace("/shared/", f"{tmp_path}/shared/")
            )
            words = shlex.split(here)[1:]
            if "--master" in words:
                words += ["--conf", "spark.driver.host=127.0.0.1"]
                words += ["--conf", "spark.executor.memory=512m"]
            if "--follow" in words:
                follow(words, kafka, folder)
                continue
            done = subprocess.run(
                pk_command(*words),
                cwd=folder,
                env=environ,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            assert done.returncode == 0, (line, done.stdout, done.stderr)
        program = PROGRAMS[0].replace("localhost:9092", broker.bootstrap)
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert re.fullmatch(r"\d+ new, \d+ before\n", done.stdout), (done.stdout, done.stderr)
    exports = {path.parent for path in tmp_path.rglob(MANIFEST)}
    names = {str(path.relative_to(tmp_path)) for path in exports}
    expected = {"orders", "json", "by-day", "buckets", "both/orders", "both/payments"}
    wanted = {f"work/out/{name}" for name in (*expected, "delta", "iceberg")}
    assert names == wanted | {"shared/orders", "shared/remote"}
    for path in exports:
        manifest = Manifest.load((path / MANIFEST).read_text())
        files = [str(path / name) for name in manifest.files]
        assert dataset.dataset(files).count_rows() == manifest.records >= 40, path
    assert os.listdir(folder / "package")
