"""Compares streams of `format("pk")` with those of Spark's own Kafka connector, from one Apache
Kafka.

Each run is a new process with one query, which reads a whole topic with a fixed number of rows per
batch (`maxOffsetsPerTrigger`, trigger AvailableNow) and writes to nothing (`noop`) or to another
topic: pk exactly once, in a transaction for each batch, and the connector at least once, since it
supports nothing else. The time of a batch is the one that Spark reports (`triggerExecution`). A
run's figure is the median without the first batches, in which compilers and connections warm up.
The time of the first batch is measured from the query's start.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from clients.pk_broker import pk_environment
from clients.spark_connector import connector
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmark import report
from benchmark.spark_connector import in_turn

GOALS = {(20_000, "noop"): 1.0, (20_000, "topic"): 1.2, (200_000, "topic"): 0.9}
FIRST_GOAL = 1.5
WARM = {20_000: 3, 200_000: 1}
TIMEOUT_S = 60.0
RUN_S = 1_800

QUERY = """
import json, sys, time
from datetime import datetime

def run(spark, format, bootstrap, source, target, rows, folder):
    frame = (
        spark.readStream.format(format)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows)
        .load()
    )
    writer = frame.select("key", "value").writeStream
    if target == "":
        writer = writer.format("noop")
    else:
        writer = writer.format(format).option("kafka.bootstrap.servers", bootstrap)
        writer = writer.option("topic", target)
    writer = writer.option("checkpointLocation", folder).trigger(availableNow=True)
    began = time.time()
    query = writer.start()
    query.awaitTermination()
    found = [json.loads(each.json) for each in query.recentProgress]
    found = [each for each in found if each["numInputRows"]]
    times = [each["durationMs"]["triggerExecution"] for each in found]
    start = datetime.fromisoformat(found[0]["timestamp"].replace("Z", "+00:00")).timestamp()
    print(json.dumps({
        "rows": sum(each["numInputRows"] for each in found),
        "times_ms": times,
        "first_ms": (start - began) * 1000 + times[0],
    }), flush=True)
"""

CONNECTOR = """
from pyspark.sql import SparkSession
cores, jars, *words = sys.argv[1:]
spark = (
    SparkSession.builder.master(f"local[{cores}]")
    .config("spark.driver.extraClassPath", jars + "/*")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "4")
    .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
    .getOrCreate()
)
run(spark, "kafka", *words)
spark.stop()
"""

PK = """
from pk.spark.session.local import launch
cores, jars, *words = sys.argv[1:]
conf = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
with launch(cores=int(cores), conf=conf, long=True) as own:
    run(own.session(), "pk", *words)
"""


def measure(
    bootstrap: str, topic: str, records: int, cores: int, rounds: int, results: report.Results
) -> None:
    """Run each stream in turn, and check that both read every record."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for rows, warm in WARM.items():
        if records < rows * (warm + 1):
            continue
        for target in ("noop", "topic"):
            words = "exactly once, theirs at least once" if target == "topic" else "noop"
            driver = f"{rows:,} rows"
            goal = GOALS.get((rows, target))
            batch = results.row(f"micro-batch to {words}", "ms", driver, higher=False, goal=goal)
            first = results.row(
                f"first batch to {words}",
                "ms",
                driver,
                higher=False,
                goal=FIRST_GOAL if (rows, target) == (20_000, "noop") else None,
            )
            for number in range(rounds):
                for system in in_turn(["pk", "apache"], number):
                    out = ""
                    if target == "topic":
                        out = f"{topic}-{system}-{rows}-{number}"
                        new: Any = NewTopic(out, 4, 1)
                        admin.create_topics([new])[out].result(TIMEOUT_S)
                    figures = _run(system, cores, bootstrap, topic, out, rows)
                    assert figures["rows"] == records, f"{system} read {figures['rows']} rows"
                    batch.add(system, statistics.median(figures["times_ms"][warm:]))
                    first.add(system, figures["first_ms"])
                    if out:
                        admin.delete_topics([out])[out].result(TIMEOUT_S)


def _run(
    system: str, cores: int, bootstrap: str, source: str, target: str, rows: int
) -> dict[str, Any]:
    python, jars = connector()
    with tempfile.TemporaryDirectory(prefix="pk-bench-") as folder:
        words = [str(cores), str(jars), bootstrap, source, target, str(rows), folder]
        if system == "pk":
            command, env = [sys.executable, "-c", QUERY + PK, *words], pk_environment()
        else:
            command = [str(python), "-c", QUERY + CONNECTOR, *words]
            env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        ran = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_S,
            cwd=Path(folder),
        )
    if ran.returncode:
        raise RuntimeError(f"the stream of {system} failed: {ran.stderr[-1500:]}")
    return json.loads(ran.stdout.splitlines()[-1])
