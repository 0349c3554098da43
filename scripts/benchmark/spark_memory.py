"""Measures whether the memory of a stream's driver stays constant. For some time, the stream copies
small batches from topic to topic with `format("pk")`, exactly once. The memory of its processes is
measured after a tenth of the time and at the end.

    scripts/bench --spark-memory --minutes 60

The driver is this process with its JVM. The heap is measured after a garbage collection. There are
also Python workers: the stream's reader, and the workers of the tasks and the commits.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from clients.pk_broker import PkBroker, pk_environment
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from spark_faults.driver import command_line, family

from benchmark.systems import rss_mb
from pk.spark.session.local import launch

TIMEOUT_S = 120.0
POLL_S = 0.5
RATE = 200
"""Input records per second, which makes a batch small."""

PARTITIONS = 2


@dataclass(frozen=True)
class Memory:
    """The memory of a driver's processes, in MB."""

    minutes: float
    batches: int
    python: float
    """The memory of this process."""

    heap: float
    """The size of the JVM's live objects."""

    jvm: float
    """The memory of the JVM's process."""

    workers: float
    """The memory of all Python workers. Memory that they share counts for each."""

    def __str__(self) -> str:
        return (
            f"after {self.minutes:.1f} min and {self.batches} batches: driver's Python"
            f" {self.python:.1f} MB, JVM's heap {self.heap:.1f} MB after a collection, JVM"
            f" {self.jvm:.0f} MB, Python workers {self.workers:.0f} MB"
        )


def feed(bootstrap: str) -> None:
    """Produce records until killed."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    while True:
        for number in range(RATE // 10):
            producer.produce("in", b"x" * 100, b"%d" % number)
        producer.poll(0.1)


def measure(spark: Any, driver: int, began: float, batches: int) -> Memory:
    """Measure the current memory, after a garbage collection."""
    jvm = spark._jvm
    assert jvm is not None
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    heap = (runtime.totalMemory() - runtime.freeMemory()) / 1e6
    children = family(driver)[1:]
    java = [pid for pid in children if "SparkSubmit" in command_line(pid)]
    python = [pid for pid in children if "pk.spark.session.fork_server" in command_line(pid)]
    return Memory(
        (time.monotonic() - began) / 60,
        batches,
        rss_mb(driver),
        heap,
        sum(map(rss_mb, java)),
        sum(map(rss_mb, python)),
    )


def run(bootstrap: str, seconds: float, batches: int, driver: int) -> tuple[Memory, Memory]:
    """Run the stream for `seconds`, and for at least `batches`. Returns the memory after a tenth of
    the time, and at the end."""
    conf = {"spark.sql.shuffle.partitions": "2"}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        own = stack.enter_context(launch(cores=2, conf=conf, long=True))
        spark = own.session()
        query = (
            spark.readStream.format("pk")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", "in")
            .load()
            .select("key", "value")
            .writeStream.format("pk")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", "out")
            .option("checkpointLocation", folder)
            .start()
        )
        began = time.monotonic()

        def wait(share: float) -> Memory:
            while time.monotonic() - began < seconds * share or done() < batches * share:
                if query.awaitTermination(POLL_S):  # pyright: ignore[reportArgumentType]
                    raise RuntimeError("the query ended")
            return measure(spark, driver, began, done())

        def done() -> int:
            progress = query.lastProgress
            return 0 if progress is None else progress["batchId"] + 1

        first = wait(0.1)
        print(first, flush=True)
        last = wait(1.0)
        print(last, flush=True)
        query.stop()
        return first, last


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--batches", type=int, default=100, help="at least so many")
    parser.add_argument("--json", action="store_true", help="the figures as JSON, at last")
    parser.add_argument("--feed", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.feed:
        feed(given.feed)
    with PkBroker(config={"log.retention.bytes": "50000000"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for topic in ("in", "out"):
            new: Any = NewTopic(topic, PARTITIONS, 1)
            admin.create_topics([new])[topic].result(TIMEOUT_S)
        del admin
        command = [sys.executable, "-m", "benchmark.spark_memory", "--feed", broker.bootstrap]
        feeder = subprocess.Popen(command, env=pk_environment())
        try:
            found = run(broker.bootstrap, given.minutes * 60, given.batches, os.getpid())
        finally:
            feeder.kill()
            feeder.wait()
    if given.json:
        print(json.dumps([asdict(each) for each in found]))


if __name__ == "__main__":
    main()
