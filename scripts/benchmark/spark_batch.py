"""Measures one large micro-batch from topic to topic with `write_batch`, published by executors,
and in one transaction by the driver.

    scripts/bench --spark-batch --megabytes 100 500

Each run has a new driver with a separate executor, so the memory is that of the driver alone: the
peaks of its Python process and of its JVM. The values cannot be compressed.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from typing import Any

from clients.pk_broker import PkBroker, pk_environment
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from spark_faults.driver import command_line, family

from benchmark.systems import rss_peak_mb

TIMEOUT_S = 120.0
RUN_S = 3_600
PARTITIONS = 4
VALUE_BYTES = 1_000
MASTER = "local-cluster[1,2,1024]"

DRIVER = """
import os, sys, time
from pk.spark import write_batch
from pk.spark.session.local import Where, launch

bootstrap, source, target, way, folder = sys.argv[1:]
kafka = {"kafka.bootstrap.servers": bootstrap}
took = []

def write(rows, batch_id):
    began = time.monotonic()
    options = {**kafka, "topic": target}
    write_batch(rows, batch_id, options, checkpoint=folder, atomic=way == "driver")
    took.append(time.monotonic() - began)

with launch(cores=2, long=True, where=Where(MASTER)) as own:
    spark = own.session()
    stream = spark.readStream.format("pk").options(**kafka, subscribe=source)
    stream = stream.option("startingOffsets", "earliest").load().select("key", "value")
    query = stream.writeStream.foreachBatch(write).option("checkpointLocation", folder)
    query.trigger(availableNow=True).start().awaitTermination()
    assert len(took) == 1, took
    print(took[0], flush=True)
    sys.stdin.readline()  # its memory is measured
"""


def fill(bootstrap: str, topic: str, megabytes: int) -> None:
    """Create the topic, with `megabytes` of values."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 20, "batch.size": 200_000}
    )
    chance = random.Random(megabytes)
    for n in range(megabytes * 1_000_000 // VALUE_BYTES):
        while True:
            try:
                producer.produce(topic, chance.randbytes(VALUE_BYTES), b"%d" % n)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(TIMEOUT_S) == 0


def measure(bootstrap: str, source: str, target: str, way: str) -> tuple[float, float, float]:
    """Return the seconds that the batch took, and the peak memory of the driver's Python and JVM in
    MB."""
    with tempfile.TemporaryDirectory(prefix="pk-bench-") as folder:
        program = DRIVER.replace("MASTER", repr(MASTER))
        words = [sys.executable, "-c", program, bootstrap, source, target, way, folder]
        with subprocess.Popen(
            words,
            env=pk_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as driver:
            assert driver.stdout is not None
            seconds = float(driver.stdout.readline())
            java = [p for p in family(driver.pid) if "SparkSubmit" in command_line(p)]
            found = seconds, rss_peak_mb(driver.pid), sum(map(rss_peak_mb, java))
            driver.communicate("\n", RUN_S)
    assert driver.returncode == 0
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="the figures as JSON, at last")
    given = parser.parse_args()
    figures: list[dict[str, Any]] = []
    with PkBroker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for megabytes in given.megabytes:
            for number in range(given.rounds):
                for way in ("executors", "driver")[:: 1 if number % 2 == 0 else -1]:
                    source, target = (
                        f"{side}-{megabytes}-{number}-{way}" for side in ("in", "out")
                    )
                    topics: list[Any] = [NewTopic(name, PARTITIONS, 1) for name in (source, target)]
                    for future in admin.create_topics(topics).values():
                        future.result(TIMEOUT_S)
                    fill(broker.bootstrap, source, megabytes)
                    seconds, python, java = measure(broker.bootstrap, source, target, way)
                    for future in admin.delete_topics([source, target]).values():
                        future.result(TIMEOUT_S)
                    print(
                        f"{megabytes} MB, the {way} publish: {seconds:.1f} s, peaks of the driver:"
                        f" Python {python:.0f} MB, JVM {java:.0f} MB",
                        flush=True,
                    )
                    row = {"megabytes": megabytes, "way": way, "seconds": seconds}
                    figures.append({**row, "python_mb": python, "jvm_mb": java})
    if given.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
