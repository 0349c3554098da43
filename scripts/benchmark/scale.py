"""Measures a broker and a cluster with many partitions and many connections. `scripts/bench
--scale`.

With one broker, partitions are created and get a record each; thousands of clients connect and send
nothing; the broker is stopped cleanly and started; every partition gets more records; the broker is
killed (-9) and started. With three brokers, and every partition on all of them, the benchmark
measures idle CPU, failover of the third of the partitions that one broker leads, and a restart of
each broker in turn while a producer sends.

The systems run one after the other, never at the same time. Apache Kafka gets fewer partitions, as
the names of its rows say: more than about 15,000 exceed its heap of a gigabyte and the mappings
that Linux allows a process. The ratios do not correct for this. No files are removed before the
end, because ext4 creates files slowly for minutes after many files have been removed.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from clients import apache_kafka
from clients.cluster_topics import create_replicated, partitions_of, wait_in_sync
from clients.load import Load
from rich.console import Console

from benchmark import report
from benchmark.__main__ import make
from benchmark.cluster import BROKERS, Cluster, fail_over
from benchmark.report import Results
from benchmark.systems import System, cpu_seconds, rss_mb
from benchmark.work import (
    LIBRDKAFKA,
    Topics,
    drive,
    environment_of_driver,
    producer_config,
    seconds_to_first,
)

PARTS = ("broker", "cluster")
PARTITIONS_A_TOPIC = 1000
SETTLE_S, IDLE_S = 10.0, 20.0
RECORD_BYTES = 1000
LOAD_TOPIC, LOAD_RATE, LOAD_PARTITIONS = "load", 200, 6
IN_SYNC_S = 600.0


class OneBroker:
    """Measures one broker with many partitions and connections."""

    def __init__(self, shown: str, partitions: int, clients: int, results: Results) -> None:
        self._shown = shown
        self._partitions = partitions
        self._clients = clients
        self._results = results
        self._start_cpu_s = 0.0
        """The CPU time of the last start, which does not depend on other load on the machine."""

    def measure(self, system: System, unflushed_mb: int) -> None:
        """Measure a system that runs and has no topics."""
        names = self._create(system)
        fill(system, names, self._partitions, 1, 100)
        with connections(system, self._clients):
            self._idle(system)
            start = time.monotonic()
            system.stop()
            self._add(system, "controlled stop", time.monotonic() - start)
        name = "clean start to the first record"
        self._add(system, name, self._first(system, names), limit=8)
        self._add(system, f"{name}: CPU", self._start_cpu_s)
        records = unflushed_mb * 10**6 // self._partitions // RECORD_BYTES
        fill(system, names, self._partitions, records, RECORD_BYTES)
        system.kill()
        name = f"start after kill -9, {unflushed_mb:,} MB unflushed, to the first record"
        self._add(system, name, self._first(system, names), limit=20)
        self._add(system, f"{name}: CPU", self._start_cpu_s)

    def _create(self, system: System) -> list[str]:
        topics, names = Topics(system), list[str]()
        start = time.monotonic()
        for left in range(self._partitions, 0, -PARTITIONS_A_TOPIC):
            names.append(topics.make(min(PARTITIONS_A_TOPIC, left)))
        self._add(system, "creation", time.monotonic() - start)
        return names

    def _idle(self, system: System) -> None:
        time.sleep(SETTLE_S)  # the work that the load has caused is done
        before, start = cpu_seconds(system.pid()), time.monotonic()
        time.sleep(IDLE_S)
        used = (cpu_seconds(system.pid()) - before) / (time.monotonic() - start)
        name = f"idle with {self._clients:,} connections"
        self._add(system, f"{name}: CPU", used * 100, unit="% of a core", limit=3)
        self._add(system, f"{name}: memory", rss_mb(system.pid()), unit="MB", limit=500)

    def _first(self, system: System, names: list[str]) -> float:
        seconds = seconds_to_first(system, names[-1])
        system.wait_until_ready()
        self._start_cpu_s = cpu_seconds(system.pid())
        return seconds

    def _add(
        self, system: System, name: str, value: float, unit: str = "s", limit: float | None = None
    ) -> None:
        row = self._results.row(
            f"{self._shown}: {name}", unit, LIBRDKAFKA, higher=False, limit=limit
        )
        row.add(system.name, value)


def fill(system: System, names: list[str], partitions: int, records: int, size: int) -> None:
    """Write `records` of `size` bytes to every partition of every topic."""
    for name in names:
        several = min(PARTITIONS_A_TOPIC, partitions)
        options = {"topic": name, "config": producer_config(system), "size": size}
        drive("produce", options | {"partitions": several, "count": several * records})
        partitions -= several


@contextlib.contextmanager
def connections(system: System, count: int) -> Iterator[None]:
    """Measure clients that send ApiVersions and then stay idle."""
    host, _, port = system.bootstrap.rpartition(":")
    command = [sys.executable, "-m", "benchmark.idle_connections", host, port, str(count)]
    with subprocess.Popen(
        command,
        env=environment_of_driver(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as clients:
        assert clients.stdin is not None and clients.stdout is not None
        if clients.stdout.readline() != "ready\n":
            raise RuntimeError("the connections were not all taken")
        yield
        clients.stdin.close()


def three_brokers(
    cluster: Cluster, shown: str, partitions: int, results: Results, log: Console
) -> None:
    """Measure three brokers that run and have no topics."""

    def add(name: str, value: float, unit: str = "s") -> None:
        results.row(f"{shown}: {name}", unit, LIBRDKAFKA, higher=False).add(cluster.name, value)

    bootstrap = cluster.bootstrap
    create_replicated(bootstrap, LOAD_TOPIC, LOAD_PARTITIONS)
    start = time.monotonic()
    names = list[str]()
    for left in range(partitions, 0, -PARTITIONS_A_TOPIC):
        names.append(f"many-{len(names)}")
        create_replicated(bootstrap, names[-1], min(PARTITIONS_A_TOPIC, left))
    add("creation, to all in sync", time.monotonic() - start)
    time.sleep(SETTLE_S)
    before, start = cluster.cpu_seconds(), time.monotonic()
    time.sleep(IDLE_S)
    used = (cluster.cpu_seconds() - before) / (time.monotonic() - start)
    add("idle: CPU of all processes", used * 100, "% of a core")
    add("idle: memory of all processes", cluster.rss_mb(), "MB")
    log.print(f"{cluster.name}: kill -9 of one of three")
    add("failover of a third of them", fail_over(cluster, 1, names))
    start = time.monotonic()
    cluster.brokers.start(1)
    await_in_sync(bootstrap, names)
    add("return of the killed one, to all in sync", time.monotonic() - start)
    start = time.monotonic()
    with Load(bootstrap, LOAD_TOPIC, rate=LOAD_RATE) as load:
        load.wait_for(LOAD_RATE)
        load.waited_s = 0.0
        for broker in range(1, BROKERS + 1):
            log.print(f"{cluster.name}: restart of {broker}")
            cluster.brokers.stop(broker)
            cluster.brokers.start(broker)
            await_in_sync(bootstrap, [LOAD_TOPIC, *names])
        add("rolling restart", time.monotonic() - start)
        add("rolling restart: longest wait of a producer", load.waited_s)
        load.finish()


def await_in_sync(bootstrap: str, names: list[str]) -> None:
    """Wait until all replicas of all topics are in sync."""
    for name in names:
        found = partitions_of(bootstrap, name)
        count = PARTITIONS_A_TOPIC if found is None else len(found)
        wait_in_sync(bootstrap, name, count, BROKERS, IN_SYNC_S)


def main() -> int:
    """Run the benchmark, print a table of ratios and write it as JSON."""
    parser = argparse.ArgumentParser(prog="scripts/bench --scale", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part only")
    parser.add_argument("--partitions", type=int, default=50_000, help="on pk's one broker")
    parser.add_argument("--apache-partitions", type=int, default=5_000, help="on Apache's one")
    parser.add_argument("--connections", type=int, default=5_000, help="to one broker")
    parser.add_argument("--unflushed-mb", type=int, default=3_000, help="where it is killed")
    parser.add_argument("--cluster-partitions", type=int, default=30_000, help="on pk's three")
    parser.add_argument(
        "--apache-cluster-partitions", type=int, default=3_000, help="on Apache's three"
    )
    parser.add_argument("--without-apache", action="store_true", help="measure pk alone")
    parser.add_argument("--without-pk", action="store_true", help="measure Apache Kafka alone")
    parser.add_argument("--json", type=Path, default=Path("bench-scale.json"), metavar="FILE")
    parser.add_argument("--dir", type=Path, help="the directory for the data (default: temporary)")
    options = parser.parse_args()
    console, log = Console(width=None if sys.stdout.isatty() else 200), Console(stderr=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers end too
    single: dict[str, int] = {} if options.without_pk else {"pk": options.partitions}
    triple: dict[str, int] = {} if options.without_pk else {"pk": options.cluster_partitions}
    if not options.without_apache:
        if (reason := apache_kafka.available()) is None:
            apache_kafka.jars()
            single["apache"] = options.apache_partitions
            triple["apache"] = options.apache_cluster_partitions
        else:
            log.print(f"Apache Kafka is skipped: {reason}.")
    results, parts = Results(), options.only or PARTS
    with tempfile.TemporaryDirectory(prefix="pk-bench-", dir=options.dir) as folder:
        if "broker" in parts:
            for name, partitions in single.items():
                log.print(f"{name}: one broker, {partitions:,} partitions")
                system = make(name, Path(folder) / name)
                try:
                    system.prepare()
                    system.start()
                    system.wait_until_ready()
                    broker = OneBroker(_shown(single), partitions, options.connections, results)
                    broker.measure(system, options.unflushed_mb)
                finally:
                    system.close()
        if "cluster" in parts:
            for name, partitions in triple.items():
                log.print(f"{name}: three brokers, {partitions:,} partitions")
                cluster = Cluster(name, Path(folder) / f"{name}-three")
                with cluster.brokers:
                    three_brokers(cluster, f"3 × {_shown(triple)}", partitions, results, log)
    report.show(results, console)
    settings = {key: str(value) for key, value in vars(options).items()}
    report.write(results, settings, options.json)
    log.print(f"Written to {options.json}.")
    return 0


def _shown(partitions: dict[str, int]) -> str:
    """Return how many partitions each system has, as the rows name it."""
    counts = [f"{count:,} partitions" for count in partitions.values()]
    if len(counts) < 2:
        return counts[0]
    return f"{partitions['pk']:,} partitions (Apache {partitions['apache']:,})"


if __name__ == "__main__":
    sys.exit(main())
