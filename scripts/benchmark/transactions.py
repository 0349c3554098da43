"""Measures transactions of pk and Apache Kafka: how many per second, the broker's CPU time for
each, and how long a record takes to reach a read_committed consumer. Also measures how many records
per second share consumers take. `scripts/bench --transactions`.

Each system has one broker, and they run alternately. The clients are librdkafka's, in threads of
this process. Each runs one transaction after another: it begins the transaction, sends records of
100 bytes to one of four partitions, and commits. The share consumers are those of Apache's perf
tool, which accept all records: librdkafka has none.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import trio
from clients import apache_kafka
from rich.console import Console

from benchmark import report
from benchmark.__main__ import in_turn, make
from benchmark.report import Results
from benchmark.systems import System, cpu_seconds, running
from benchmark.work import JAVA, LIBRDKAFKA, TIMEOUT_S, Topics, client_config, java_tool
from pk.net.client.admin import open_admin
from pk.net.client.results import ConfigChange, ConfigResource, ResourceType

PARTITIONS = 4
RECORD_BYTES = 100
SHAPES = ((1, 1), (1, 10), (1, 1000), (16, 1), (16, 10))
"""(producers, records per transaction)."""

THROUGHPUT_GOAL = 1.5
CPU_GOAL = 0.7
SHARE_GOAL = 1.0

SHARE_RECORDS_A_SECOND = 20_000
"""How many records share consumers get for each second that the other measurements take."""
SHARE_CONSUMERS = (1, 4)


class Took(NamedTuple):
    """The results of several producers."""

    transactions: int
    seconds: float
    cpu_s: float
    """The CPU time of the broker."""


def main() -> int:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(prog="scripts/bench --transactions", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the time")
    parser.add_argument("--rounds", type=int, default=3, help="rounds a measurement (default 3)")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="of each measurement (default 5)"
    )
    parser.add_argument("--without-apache", action="store_true", help="measure pk alone")
    parser.add_argument(
        "--json", type=Path, default=Path("bench-transactions.json"), metavar="FILE"
    )
    options = parser.parse_args()
    seconds = options.seconds / 5 if options.quick else options.seconds
    console, log = Console(width=None if sys.stdout.isatty() else 160), Console(stderr=True)
    names = ["pk"]
    if not options.without_apache:
        if (reason := apache_kafka.available()) is None:
            apache_kafka.jars()
            names.append("apache")
        else:
            log.print(f"Apache Kafka is skipped: {reason}.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers end too
    results = Results()
    with tempfile.TemporaryDirectory(prefix="pk-bench-") as folder:
        for number in range(options.rounds):
            for name in in_turn(names, number):
                log.print(f"round {number + 1}: {name}, load {os.getloadavg()[0]:.1f}")
                directory = Path(folder) / f"{name}-{number}"
                system = make(name, directory)
                with running(system, directory):
                    measure(system, seconds, results)
    report.show(results, console)
    report.write(results, {"rounds": options.rounds, "seconds": seconds}, options.json)
    log.print(f"Written to {options.json}.")
    return 0


def measure(system: System, seconds: float, results: Results) -> None:
    """Measure all figures of a broker that was just started."""
    topic = Topics(system).make(PARTITIONS)
    transact(system, topic, 1, 10, seconds)  # warms up the broker, and the compiler of a JVM
    for producers, records in SHAPES:
        took = transact(system, topic, producers, records, seconds)
        what = (
            f"{records:,} record{'s'[: records != 1]} each, {producers} "
            f"producer{'s'[: producers != 1]}"
        )
        rate = results.row(
            f"transactions of {what}", "/s", LIBRDKAFKA, higher=True, goal=THROUGHPUT_GOAL
        )
        rate.add(system.name, took.transactions / took.seconds)
        cpu = results.row(
            f"broker CPU a transaction of {what}", "ms", LIBRDKAFKA, higher=False, goal=CPU_GOAL
        )
        cpu.add(system.name, took.cpu_s * 1000 / took.transactions)
    latencies = end_to_end_ms(system, topic, seconds)
    for name, value in (
        ("p50", statistics.median(latencies)),
        ("p99", statistics.quantiles(latencies, n=100)[98]),
    ):
        row = results.row(
            f"a record to a reader of committed records, {name}", "ms", LIBRDKAFKA, higher=False
        )
        row.add(system.name, value)
    if apache_kafka.available() is None:
        for consumers in SHARE_CONSUMERS:
            share(system, consumers, int(seconds * SHARE_RECORDS_A_SECOND), results)


def share(system: System, consumers: int, count: int, results: Results) -> None:
    """Measure `consumers` of a share group that read `count` existing records and accept them."""
    topic = Topics(system).make(PARTITIONS)
    producer: Any = confluent_kafka.Producer(client_config(system, linger_ms=5))
    value = b"x" * RECORD_BYTES
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(TIMEOUT_S) == 0
    trio.run(_begin_at_the_first_record, system, topic)
    cpu_s = cpu_seconds(system.pid())
    out = java_tool(
        "ShareConsumerPerformance",
        *("--bootstrap-server", system.bootstrap, "--topic", topic, "--group", topic),
        *("--num-records", str(count), "--threads", str(consumers), "--hide-header"),
        *("--timeout", "30000"),
    )
    cpu_s = cpu_seconds(system.pid()) - cpu_s
    # start, end, MB, MB/s, records/s, records, fetch ms
    fields = out.strip().splitlines()[-1].split(",")
    assert int(fields[5]) >= count, out
    what = f"{consumers} share consumer{'s'[: consumers != 1]}"
    row = results.row(f"{what}", "records/s", JAVA, higher=True, goal=SHARE_GOAL)
    row.add(system.name, float(fields[4]))
    row = results.row(f"broker CPU of {what}, 1,000 records", "ms", JAVA, higher=False)
    row.add(system.name, cpu_s * 1e6 / count)


async def _begin_at_the_first_record(system: System, group: str) -> None:
    """Make a share group start at the first record."""
    resource = ConfigResource(ResourceType.GROUP, group)
    async with open_admin(system.bootstrap) as admin:
        change = ConfigChange("share.auto.offset.reset", "earliest")
        answers = await admin.alter_configs({resource: [change]})
    assert not answers.errors, answers


def transact(system: System, topic: str, producers: int, records: int, seconds: float) -> Took:
    """Run `producers` for `seconds`, each with one transaction after another."""
    made = [_producer(system, f"{topic}-{records}-{n}") for n in range(producers)]
    counts = [0] * producers
    until = [0.0]
    begun = threading.Barrier(producers + 1)

    def work(number: int) -> None:
        producer = made[number]
        begun.wait()
        while time.monotonic() < until[0]:
            _transaction(producer, topic, records, counts[number] % PARTITIONS)
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(n,)) for n in range(producers)]
    for thread in threads:
        thread.start()
    cpu_s, started = cpu_seconds(system.pid()), time.monotonic()
    until[0] = started + seconds
    begun.wait()
    for thread in threads:
        thread.join()
    took = time.monotonic() - started
    return Took(sum(counts), took, cpu_seconds(system.pid()) - cpu_s)


def end_to_end_ms(system: System, topic: str, seconds: float) -> list[float]:
    """Return the milliseconds from the start of a transaction with one record until a
    read_committed consumer has the record."""
    consumer: Any = confluent_kafka.Consumer(
        client_config(
            system,
            group_id="bench",
            isolation_level="read_committed",
            enable_auto_commit=False,
            fetch_wait_max_ms=500,
        )
    )
    partitions = [confluent_kafka.TopicPartition(topic, p) for p in range(PARTITIONS)]
    for partition in partitions:
        _, partition.offset = consumer.get_watermark_offsets(partition, TIMEOUT_S)
    consumer.assign(partitions)
    producer = _producer(system, f"{topic}-latency")
    latencies: list[float] = []
    _round_trip(producer, consumer, topic)  # the first fetch takes longer
    until = time.monotonic() + seconds
    while time.monotonic() < until or len(latencies) < 100:
        latencies.append(_round_trip(producer, consumer, topic))
    consumer.close()
    return latencies


def _round_trip(producer: Any, consumer: Any, topic: str) -> float:
    started = time.monotonic()
    _transaction(producer, topic, 1, 0)
    message = consumer.poll(TIMEOUT_S)
    assert message is not None and message.error() is None, message and message.error()
    return (time.monotonic() - started) * 1000


def _producer(system: System, transactional_id: str) -> Any:
    config = client_config(system, transactional_id=transactional_id, linger_ms=0)
    producer: Any = confluent_kafka.Producer(config)
    producer.init_transactions(TIMEOUT_S)
    return producer


def _transaction(producer: Any, topic: str, records: int, partition: int) -> None:
    producer.begin_transaction()
    value = b"x" * RECORD_BYTES
    for _ in range(records):
        producer.produce(topic, value, partition=partition)
    producer.commit_transaction(TIMEOUT_S)


if __name__ == "__main__":
    sys.exit(main())
