"""`pk spark-export` beside Spark's own Kafka connector: one topic to parquet, each in a fresh process.

Both read from the same Apache Kafka, use the same cores, write the same columns (headers too) with the same codec, and
are timed from the start of the process to its end. The connector is version 4.0.0 on pyspark 4.0.0, fetched once into
the user's cache; its script is as its documentation has it, with the jars on the class path and no user interface. CPU
is user plus system time of the whole process tree.

    PYTHONPATH=scripts:tests:scripts/path .venv/bin/python -m benchmark.spark_export --records 2000000 --rounds 3
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from clients.apache_kafka import ApacheKafka, available, locked
from clients.pk_broker import pk_command, pk_environment
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyarrow import dataset
from rich.console import Console

from benchmark import report

VERSION = "4.0.0"
ARTIFACTS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{VERSION}",
    "org.apache.kafka:kafka-clients:3.9.0",
    "org.apache.commons:commons-pool2:2.12.0",
)
GOAL = 1.0
RECORD_BYTES = 100
TIMEOUT_S = 60.0

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

# Orphans of the command come to this process, so that their time is counted when they end.
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


def connector() -> tuple[Path, Path]:
    """The interpreter with the connector's pyspark, and the folder of its jars; fetched at the first call ever."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    home = Path(cache) / "pk-spark-kafka" / VERSION
    python, jars, complete = home / "venv" / "bin" / "python", home / "jars", home / ".complete"
    with locked(home / ".lock"):
        if not complete.exists():
            venv.create(home / "venv", with_pip=True)
            subprocess.run(
                [python, "-m", "pip", "install", "-q", f"pyspark=={VERSION}"], check=True
            )
            for artifact in ARTIFACTS:
                goal = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={jars}"]
                subprocess.run(["mvn", "-q", "-B", *goal], check=True)
            complete.touch()
    return python, jars


def fill(bootstrap: str, topic: str, records: int, partitions: int) -> None:
    """Makes the topic, with records of 100 bytes and short keys."""
    new: object = NewTopic(topic, partitions, 1)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([new])[topic].result(TIMEOUT_S)  # type: ignore[list-item]
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "linger.ms": 20,
            "batch.size": 200_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    padding = b"x" * (RECORD_BYTES - 20)
    for n in range(records):
        while True:
            try:
                producer.produce(
                    topic, b"%020d" % n + padding, b"k%d" % (n % 1000), partition=n % partitions
                )
                break
            except BufferError:
                producer.poll(0.1)
        if n % 1000 == 0:
            producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def timed(command: list[str], env: dict[str, str]) -> dict[str, float]:
    """Runs a command to the end of all its processes; the seconds until it ended itself, and the CPU of all."""
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
    """Exports the topic in turn, and checks that both wrote every record."""
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


def in_turn(names: list[str], number: int) -> list[str]:
    """The order of a round: who goes first changes."""
    return names if number % 2 == 0 else names[::-1]


def _pk(bootstrap: str, topic: str, out: Path, cores: int) -> dict[str, float]:
    words = ["--to", str(out), "--bootstrap-server", bootstrap, "--cores", str(cores)]
    return timed(pk_command("spark-export", topic, *words), pk_environment())


def _connector(bootstrap: str, topic: str, out: Path, cores: int) -> dict[str, float]:
    python, jars = connector()
    words = [bootstrap, topic, str(out), str(cores), str(jars)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return timed([str(python), "-c", CONNECTOR, *words], env)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmark.spark_export")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--bootstrap", help="a Kafka to read from (default: starts Apache Kafka)")
    options = parser.parse_args()
    reason = available()
    if reason is not None:
        print(f"skipped: {reason}", file=sys.stderr)
        return 0
    results = report.Results()
    topic = f"spark-export-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        bootstrap = options.bootstrap
        if bootstrap is None:
            bootstrap = stack.enter_context(ApacheKafka()).bootstrap
        connector()
        fill(bootstrap, topic, options.records, options.partitions)
        try:
            measure(bootstrap, topic, options.records, options.cores, options.rounds, results)
        finally:
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    report.show(results, Console(width=None if sys.stdout.isatty() else 120))
    return 0


if __name__ == "__main__":
    sys.exit(main())
