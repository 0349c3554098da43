"""Compares three brokers of pk with three of Apache Kafka: replication, and many partitions.

Both clusters run on this machine at the same time and take turns, as in scripts/bench. Topics have
replication factor 3 and min.insync.replicas 2, and producers use acks=all. CPU and memory are the
sums of all processes of a cluster, including pk's controller. With many partitions, the benchmark
measures the CPU of the idle cluster, and how long a producer that writes to every partition of a
broker waits after the broker is killed (-9).

    PYTHONPATH=scripts:tests:scripts/path .venv/bin/python -m benchmark.cluster
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from pathlib import Path

from clients import apache_kafka
from clients.apache_kafka import ApacheKafka
from clients.cluster_topics import create_replicated, partitions_of, wait_in_sync
from clients.pk_cluster import PkCluster
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from rich.console import Console

from benchmark import report
from benchmark.systems import cpu_seconds, rss_mb, touch_memory
from benchmark.work import LIBRDKAFKA, drive

BROKERS = 3
RECORD_BYTES = 1000
WARM_MB = 300
DELIVERY_TIMEOUT_MS = 120_000


class Cluster:
    """Three brokers of pk or of Apache Kafka."""

    def __init__(self, name: str, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.name = name
        self.brokers = (
            PkCluster(BROKERS, directory=directory)
            if name == "pk"
            else ApacheKafka(BROKERS, directory=directory, heap="1G")
        )
        self.bootstrap = self.brokers.bootstrap

    def pids(self) -> list[int]:
        """Return the running processes of the cluster."""
        if isinstance(self.brokers, ApacheKafka):
            return self.brokers.pids
        return [self.brokers.pid(node) for node in self.brokers.running]

    def cpu_seconds(self) -> float:
        """Return the user plus system time of all processes."""
        return sum(cpu_seconds(pid) for pid in self.pids())

    def rss_mb(self) -> float:
        """Return the resident memory of all processes."""
        return sum(rss_mb(pid) for pid in self.pids())

    def producer(self, linger_ms: int) -> dict[str, object]:
        """Return librdkafka's settings."""
        return {
            "bootstrap.servers": self.bootstrap,
            "log_level": 0,
            "acks": "all",
            "linger.ms": linger_ms,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        client.delete_topics([topic])[topic].result(60)


def warm(cluster: Cluster) -> None:
    """Warm up the brokers, and the compiler of a JVM."""
    create_replicated(cluster.bootstrap, "warm", 6)
    options = {"topic": "warm", "size": RECORD_BYTES, "partitions": 6, "count": WARM_MB * 1000}
    drive("produce", options | {"config": cluster.producer(5)})
    options = {"topic": "warm", "size": 100, "count": 2000, "warm": 0}
    drive("round_trip", options | {"config": cluster.producer(0)})
    cluster.delete("warm")


def replicate(cluster: Cluster, number: int, megabytes: int, results: report.Results) -> None:
    """Measure records of 1 kB to one partition and to six, and the round trip of a single
    record."""
    for partitions in (1, 6):
        topic = f"replicated-{partitions}-{number}"
        create_replicated(cluster.bootstrap, topic, partitions)
        options = {"topic": topic, "size": RECORD_BYTES, "partitions": partitions}
        touch_memory((BROKERS + 1) * megabytes)
        before = cpu_seconds_settled(cluster)
        sent = drive(
            "produce", options | {"count": megabytes * 1000, "config": cluster.producer(5)}
        )
        cpu = cpu_seconds_settled(cluster) - before
        name = f"produce 1000 B, RF 3, {partitions} partition{'s'[: partitions > 1]}"
        row = results.row(name, "MB/s", LIBRDKAFKA, higher=True, goal=1.5)
        row.add(cluster.name, megabytes / sent["seconds"])
        row = results.row(f"{name}: brokers' CPU", "s/GB", "/proc", higher=False, goal=0.5)
        row.add(cluster.name, cpu / (megabytes / 1000))
        if partitions == 1:
            options = {"topic": topic, "size": 100, "count": 3000, "warm": 300}
            config = cluster.producer(0)
            times = sorted(drive("round_trip", options | {"config": config})["times_ms"])
            for percent, goal in ((50.0, 1.0), (99.0, None)):
                name = f"produce round trip, RF 3, p{percent:g}"
                row = results.row(name, "ms", LIBRDKAFKA, higher=False, goal=goal)
                row.add(cluster.name, times[int(len(times) * percent / 100)])
        cluster.delete(topic)


def cpu_seconds_settled(cluster: Cluster) -> float:
    """Return the CPU time so far, once the followers have nothing left to fetch: acks=all waits for
    two of three replicas."""
    used = cluster.cpu_seconds()
    while True:
        time.sleep(0.5)
        now = cluster.cpu_seconds()
        if now - used < 0.1:
            return now
        used = now


def many_partitions(cluster: Cluster, partitions: int, results: report.Results) -> None:
    """Measure idle CPU with `partitions`, and the failover of a broker that leads a third of
    them."""
    create_replicated(cluster.bootstrap, "many", partitions)
    for _ in range(3):
        cpu_seconds_settled(cluster)
        before, start = cluster.cpu_seconds(), time.monotonic()
        time.sleep(10)
        used = (cluster.cpu_seconds() - before) / (time.monotonic() - start)
        name = f"idle with {partitions} partitions, RF 3"
        results.row(name, "% CPU", "/proc", higher=False).add(cluster.name, used * 100)
    row = results.row("memory after load", "MB", "/proc", higher=False)
    row.add(cluster.name, cluster.rss_mb())
    for broker in range(1, BROKERS + 1):
        name = f"failover of a third of {partitions} partitions"
        results.row(name, "s", LIBRDKAFKA, higher=False).add(
            cluster.name, fail_over(cluster, broker, ["many"])
        )
        cluster.brokers.start(broker)
        wait_in_sync(cluster.bootstrap, "many", partitions, BROKERS)


def fail_over(cluster: Cluster, broker: int, topics: list[str]) -> float:
    """Return the seconds from kill -9 of `broker` until a record is acknowledged in every partition
    of `topics` that it led."""
    led = [
        (topic, number)
        for topic in topics
        for number, partition in (partitions_of(cluster.bootstrap, topic) or {}).items()
        if partition.leader == broker
    ]
    config = cluster.producer(0) | {"delivery.timeout.ms": DELIVERY_TIMEOUT_MS}
    producer = Producer(config)  # pyright: ignore[reportArgumentType]
    for topic, number in led:  # the client has its metadata and connections
        producer.produce(topic, b"before", partition=number)
    producer.flush()
    done, errors = threading.Event(), []
    left = set(led)

    def delivered(error: object, message: object) -> None:
        if error is not None:
            errors.append(error)
        left.discard((message.topic(), message.partition()))  # pyright: ignore[reportAttributeAccessIssue]
        if not left:
            done.set()

    cluster.brokers.kill(broker)
    start = time.monotonic()
    for topic, number in led:
        producer.produce(topic, b"after", partition=number, on_delivery=delivered)
    while not done.is_set():
        producer.poll(0.05)
    if errors:
        raise RuntimeError(f"{len(errors)} of {len(led)} records failed: {errors[0]}")
    return time.monotonic() - start


def main() -> int:
    """Run the benchmark, print a table of ratios and write it as JSON."""
    parser = argparse.ArgumentParser(prog="benchmark.cluster")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=500, help="of records a row")
    parser.add_argument("--partitions", type=int, default=2000, help="of the idle cluster; 0: skip")
    parser.add_argument("--without-apache", action="store_true")
    parser.add_argument("--json", type=Path, default=Path("bench-cluster.json"), metavar="FILE")
    options = parser.parse_args()
    log, names = Console(stderr=True), ["pk"]
    if not options.without_apache:
        reason = apache_kafka.available()
        if reason is None:
            names.append("apache")
        else:
            log.print(f"Apache Kafka is skipped: {reason}.")
    results = report.Results()
    with tempfile.TemporaryDirectory(prefix="pk-bench-") as folder, contextlib.ExitStack() as stack:
        clusters: list[Cluster] = []
        for name in names:
            cluster = Cluster(name, Path(folder) / name)
            stack.enter_context(cluster.brokers)
            clusters.append(cluster)
            log.print(f"warming {name}")
            warm(cluster)
        for number in range(options.rounds):
            for cluster in clusters if number % 2 == 0 else clusters[::-1]:
                log.print(f"round {number + 1} of {options.rounds}: replication on {cluster.name}")
                replicate(cluster, number, options.megabytes, results)
        for cluster in clusters if options.partitions else []:
            log.print(f"{options.partitions} partitions on {cluster.name}")
            many_partitions(cluster, options.partitions, results)
    report.show(results, Console(width=None if sys.stdout.isatty() else 160))
    settings = {"rounds": options.rounds, "megabytes": options.megabytes}
    report.write(results, settings, options.json)
    log.print(f"Written to {options.json}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
