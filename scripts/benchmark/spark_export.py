"""Compares `pk spark-export` with Spark's own Kafka connector: each exports one topic to parquet,
in a new process.

Both read from the same Apache Kafka, use the same cores, and write the same columns (including
headers) with the same codec. The time is from the start of the process to its end. The connector is
version 4.0.0 on pyspark 4.0.0, downloaded once into the user's cache. Its script follows its
documentation, with the jars on the class path and no user interface. CPU is user plus system time
of the whole process tree.

    scripts/bench --spark --records 2000000 --rounds 5
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from clients.pk_broker import pk_command, pk_environment
from clients.spark_connector import connector
from pyarrow import dataset

from benchmark import report
from benchmark.spark_connector import in_turn

GOAL = 0.5

CONNECTOR = """\
import sys
from pyspark.sql import SparkSession
bootstrap, topic, directory, cores, jars = sys.argv[1:]
spark = (
    SparkSession.builder.master(f"local[{cores}]")
    .config("spark.driver.extraClassPath", jars + "/*")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
rows = (
    spark.read.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("endingOffsets", "latest")
    .option("includeHeaders", "true")
    .load()
)
rows.write.parquet(directory)
spark.stop()
"""

# Orphans of the command become children of this process, so that their time counts when they end.
TIMED = """\
import ctypes, json, os, resource, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
start = time.monotonic()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
seconds = time.monotonic() - start
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"code": code, "seconds": seconds, "cpu": used.ru_utime + used.ru_stime}))
"""


def timed(command: list[str], env: dict[str, str]) -> dict[str, float]:
    """Run a command until all its processes have ended. Returns the seconds until the command
    itself ended, and the CPU time of all processes."""
    ran = subprocess.run(
        [sys.executable, "-c", TIMED, *command],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(ran.stdout)
    if figures["code"]:
        raise RuntimeError(f"{' '.join(command)[:200]}: {ran.stderr[-1500:]}")
    return figures


def measure(
    bootstrap: str, topic: str, records: int, cores: int, rounds: int, results: report.Results
) -> None:
    """Export the topic with each system in turn, and check that both wrote every record."""
    name = f"export of {records:,} records"
    wall = results.row(name, "s", "fresh process", higher=False, goal=GOAL)
    cpu = results.row(f"{name}, CPU", "s", "fresh process", higher=False)
    with tempfile.TemporaryDirectory(prefix="pk-bench-") as folder:
        for number in range(rounds):
            for system in in_turn(["pk", "apache"], number):
                out = Path(folder, f"{system}-{number}")
                export = _pk if system == "pk" else _connector
                figures = export(bootstrap, topic, out, cores)
                wall.add(system, figures["seconds"])
                cpu.add(system, figures["cpu"])
                rows = dataset.dataset(out, format="parquet").count_rows()
                assert rows == records, f"{system} wrote {rows} records"


def _pk(bootstrap: str, topic: str, out: Path, cores: int) -> dict[str, float]:
    words = ["--to", str(out), "--bootstrap-server", bootstrap, "--cores", str(cores)]
    return timed(pk_command("spark-export", topic, *words), pk_environment())


def _connector(bootstrap: str, topic: str, out: Path, cores: int) -> dict[str, float]:
    python, jars = connector()
    words = [bootstrap, topic, str(out), str(cores), str(jars)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return timed([str(python), "-c", CONNECTOR, *words], env)
