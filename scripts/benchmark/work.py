"""The measurements of `scripts/bench`. Each function measures one system once and adds its figures
to the results.

The goals are the project's own, as ratios to Apache Kafka on the same machine in the same run.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clients.apache_kafka import PERF_JVM, java_command
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmark.report import Results
from benchmark.systems import (
    System,
    cpu_seconds,
    environment,
    rss_mb,
    rss_peak_mb,
    run,
    touch_memory,
)

SCRIPTS = Path(__file__).resolve().parents[1]
TIMEOUT_S = 60.0
PRODUCE_GOALS = {
    (1000, 1): (1.5, 0.5),
    (100, 1): (1.2, 0.55),
    (1000, 100): (2, 0.35),
    (100, 100): (2, 0.35),
}
"""(size of the records in bytes, partitions) → (goal for the throughput ratio, goal for the CPU
ratio)."""
LIBRDKAFKA, JAVA = "librdkafka", "Java perf tool"
_NAMES = itertools.count(1)


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """The amount of work in a round."""

    warm_mb: int
    produce_mb: int  # records of 1 kB; half as many bytes of 100 B records
    one_record_requests: int
    round_trips: int
    console_lines: int
    idle_s: float
    rounds: int


FULL = Size(2000, 1000, 100_000, 10_000, 500_000, 10.0, 5)
QUICK = Size(200, 200, 20_000, 2_000, 100_000, 5.0, 3)
IDLE_PARTITIONS = 1000


def client_config(system: System, **more: object) -> dict[str, object]:
    """Return the settings of librdkafka that all rows share."""
    return {"bootstrap.servers": system.bootstrap, "log_level": 0} | {
        key.replace("_", "."): value for key, value in more.items()
    }


def producer_config(system: System, **more: object) -> dict[str, object]:
    """Return the settings of a producer: acks=all, linger 5 ms, not idempotent, and a queue that
    never blocks the client."""
    settings: dict[str, object] = {"acks": "all", "linger_ms": 5}
    settings |= {"queue_buffering_max_messages": 500_000}
    settings |= {"queue_buffering_max_kbytes": 1_000_000}
    return client_config(system, **(settings | more))


def drive(what: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Make one measurement with librdkafka, in a process of its own."""
    command = [sys.executable, "-m", "benchmark.rdkafka", what, json.dumps(options)]
    return json.loads(run(command, environment_of_driver()).splitlines()[-1])


def environment_of_driver() -> dict[str, str]:
    """Return the environment with the paths of `benchmark` and `clients`."""
    return {"PYTHONPATH": f"{SCRIPTS}:{SCRIPTS.parent / 'tests'}", "PATH": "/usr/bin:/bin"}


class Topics:
    """Creates topics whose files are deleted at once when the topics are."""

    def __init__(self, system: System) -> None:
        self._admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})

    def make(self, partitions: int, **config: str) -> str:
        """Create a topic. In the keys of `config`, an underscore stands for a dot."""
        name = f"bench-{next(_NAMES)}"
        keys = {key.replace("_", "."): value for key, value in config.items()}
        new: Any = NewTopic(name, partitions, 1, config={"file.delete.delay.ms": "0"} | keys)
        self._admin.create_topics([new])[name].result(TIMEOUT_S)
        deadline = time.monotonic() + TIMEOUT_S
        while not self._is_ready(name, partitions):
            if time.monotonic() > deadline:
                raise RuntimeError(f"topic {name} has no leaders")
        return name

    def _is_ready(self, name: str, partitions: int) -> bool:
        found = self._admin.list_topics(name, TIMEOUT_S).topics[name].partitions
        return len(found) == partitions and all(p.leader >= 0 for p in found.values())

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(TIMEOUT_S)


def warm(system: System, size: Size) -> None:
    """Warm up the broker, and the compiler of a JVM."""
    topics = Topics(system)
    topic = topics.make(1)
    count = size.warm_mb * 1000
    config = producer_config(system)
    options = {"topic": topic, "config": config, "size": 1000, "partitions": 1, "count": count}
    drive("produce", options)
    drive("consume", options | {"config": client_config(system)})
    options = {"topic": topic, "config": producer_config(system, linger_ms=0), "size": 100}
    drive("round_trip", options | {"count": size.round_trips // 4, "warm": 0})
    topics.delete(topic)


def produce(system: System, size: Size, results: Results) -> None:
    """Measure producing records of 100 B and 1 kB to 1 and to 100 partitions, and then reading the
    large ones."""
    topics = Topics(system)
    for record_bytes, partitions in itertools.product((1000, 100), (1, 100)):
        topic = topics.make(partitions)
        count = size.produce_mb * (1000 if record_bytes == 1000 else 5000)
        options = {"topic": topic, "config": producer_config(system), "size": record_bytes}
        options |= {"partitions": partitions, "count": count}
        touch_memory(2 * size.produce_mb)
        before = cpu_seconds(system.pid())
        seconds = drive("produce", options)["seconds"]
        cpu = cpu_seconds(system.pid()) - before
        name = f"produce {record_bytes} B, {partitions} partition{'s'[: partitions > 1]}"
        more, less = PRODUCE_GOALS[record_bytes, partitions]
        rate = results.row(name, "records/s", LIBRDKAFKA, higher=True, goal=more)
        rate.add(system.name, count / seconds)
        gigabytes = count * record_bytes / 1e9
        row = results.row(f"{name}: broker CPU", "s/GB", LIBRDKAFKA, higher=False, goal=less)
        row.add(system.name, cpu / gigabytes)
        if record_bytes == 1000:
            consume(system, topic, partitions, count, results)
        topics.delete(topic)


def consume(system: System, topic: str, partitions: int, count: int, results: Results) -> None:
    """Measure reading records of 1 kB from the page cache."""
    options = {"topic": topic, "config": client_config(system), "partitions": partitions}
    before = cpu_seconds(system.pid())
    seconds = drive("consume", options | {"count": count})["seconds"]
    cpu = cpu_seconds(system.pid()) - before
    name = f"consume 1000 B, {partitions} partition{'s'[: partitions > 1]}"
    results.row(name, "records/s", LIBRDKAFKA, higher=True).add(system.name, count / seconds)
    row = results.row(f"{name}: broker CPU", "s/GB", LIBRDKAFKA, higher=False, goal=0.75)
    row.add(system.name, cpu / (count * 1000 / 1e9))


def one_record_requests(system: System, size: Size, results: Results) -> None:
    """Measure batches of one record, with as many requests in flight as the client's default."""
    topics = Topics(system)
    topic = topics.make(1)
    config = producer_config(system, linger_ms=0, batch_num_messages=1)
    count = size.one_record_requests
    options = {"topic": topic, "config": config, "size": 100, "partitions": 1, "count": count}
    before = cpu_seconds(system.pid())
    seconds = drive("produce", options)["seconds"]
    cpu = cpu_seconds(system.pid()) - before
    name = "one record a request, pipelined"
    row = results.row(name, "requests/s", LIBRDKAFKA, higher=True, goal=2.5)
    row.add(system.name, count / seconds)
    row = results.row(f"{name}: broker CPU", "µs each", LIBRDKAFKA, higher=False, goal=0.35)
    row.add(system.name, cpu / count * 1e6)
    topics.delete(topic)


def idle_consumer(system: System, size: Size, results: Results) -> None:
    """Measure a consumer that fetches a thousand idle partitions ten times a second."""
    topics = Topics(system)
    topic = topics.make(IDLE_PARTITIONS)
    options = {"topic": topic, "partitions": IDLE_PARTITIONS, "pid": system.pid()}
    options |= {"config": client_config(system, fetch_wait_max_ms=100)}
    options |= {"seconds": size.idle_s}
    command = [sys.executable, "-m", "benchmark.idle_consumer", json.dumps(options)]
    found = json.loads(run(command, environment_of_driver()).splitlines()[-1])
    name = f"a fetch of {IDLE_PARTITIONS:,} idle partitions: broker CPU"
    row = results.row(name, "ms each", LIBRDKAFKA, higher=False, goal=0.5)
    row.add(system.name, found["cpu_s"] / found["fetches"] * 1000)
    topics.delete(topic)


def latencies(system: System, size: Size, results: Results) -> None:
    """Measure the round trip of a produce, and the time from a producer to a waiting consumer."""
    topics = Topics(system)
    topic = topics.make(1)
    config = producer_config(system, linger_ms=0)
    options = {"topic": topic, "config": config, "size": 100, "warm": size.round_trips // 10}
    goals = {"round_trip": {50.0: 1.1, 99.9: 0.6}, "end_to_end": {50.0: 1.2}}
    for what, name in (("round_trip", "produce round trip"), ("end_to_end", "end to end")):
        times = sorted(drive(what, options | {"count": size.round_trips})["times_ms"])
        for percent in (50.0, 99.0, 99.9):
            goal = goals.get(what, {}).get(percent)
            row = results.row(f"{name} p{percent:g}", "ms", LIBRDKAFKA, higher=False, goal=goal)
            row.add(system.name, times[min(len(times) - 1, int(len(times) * percent / 100))])
    topics.delete(topic)


def java_tools(system: System, size: Size, results: Results) -> None:
    """Measure Apache's own perf tools with the defaults of its client (idempotent), and linger 5
    ms."""
    topics = Topics(system)
    for record_bytes, partitions in itertools.product((1000, 100), (1, 100)):
        topic = topics.make(partitions)
        count = size.produce_mb * (1000 if record_bytes == 1000 else 5000) // 2
        touch_memory(2 * size.produce_mb)
        out = java_tool(
            "ProducerPerformance",
            *("--bootstrap-server", system.bootstrap, "--topic", topic, "--throughput", "-1"),
            *("--num-records", str(count), "--record-size", str(record_bytes)),
            *("--warmup-records", str(count // 4)),  # the client is a JVM too: its warm-up counts
            *("--command-property", "acks=all", "linger.ms=5", "batch.size=1000000"),
        )
        found = re.findall(r"([\d.]+) records/sec", out)  # the last figure is the steady state
        name = f"produce {record_bytes} B, {partitions} partition{'s'[: partitions > 1]}, Java"
        row = results.row(name, "records/s", JAVA, higher=True, goal=1)
        row.add(system.name, float(found[-1]))
        if (record_bytes, partitions) == (1000, 1):
            _java_consume(system, topic, count, results)
        topics.delete(topic)


def _java_consume(system: System, topic: str, count: int, results: Results) -> None:
    out = java_tool(
        "ConsumerPerformance",
        *("--bootstrap-server", system.bootstrap, "--topic", topic, "--hide-header"),
        *("--num-records", str(count), "--command-property", "group.protocol=classic"),
        *("--timeout", "30000"),
    )
    # start, end, MB, MB/s, records, records/s, rebalance ms, fetch ms, MB/s and records/s of the
    # fetch
    fields = out.strip().splitlines()[-1].split(",")
    row = results.row("consume 1000 B, 1 partition, Java", "records/s", JAVA, higher=True, goal=1)
    row.add(system.name, float(fields[9]))


def java_tool(tool: str, *options: str) -> str:
    """Run one of Apache's tools and return its output."""
    command = java_command(f"org.apache.kafka.tools.{tool}", *options, jvm=PERF_JVM)
    return run(command, environment_of_driver())


def memory(system: System, results: Results, when: str) -> None:
    """Measure the resident memory of a broker that was just started, or after all of the load."""
    goal = 0.15 if when == "after load" else None
    row = results.row(f"memory {when}", "MB", "/proc", higher=False, goal=goal)
    row.add(system.name, rss_mb(system.pid()))
    if when == "after load":
        row = results.row("memory, peak", "MB", "/proc", higher=False)
        row.add(system.name, rss_peak_mb(system.pid()))


def first_acknowledged(system: System, results: Results) -> None:
    """Measure the time from the start of a broker on an empty directory to its first acknowledged
    record.

    The client starts first, and its topic is created on demand: the broker answers
    UNKNOWN_TOPIC_OR_PARTITION once, as Apache Kafka does, and the client retries.
    """
    system.prepare()
    seconds = seconds_to_first(system, "first")
    name = "start to first acknowledged record"
    row = results.row(name, "s", LIBRDKAFKA, higher=False, goal=0.3, limit=0.25)
    row.add(system.name, seconds)
    system.wait_until_ready()


def seconds_to_first(system: System, topic: str) -> float:
    """Return the time from the start of a broker to the first record in `topic`. The client starts
    first and retries every 10 ms. With librdkafka's default limit of a second, the client would
    double its pauses while there is no broker, and find the broker and the new topic a third of a
    second late."""
    impatient = producer_config(
        system,
        linger_ms=0,
        reconnect_backoff_ms=5,
        reconnect_backoff_max_ms=10,
        retry_backoff_ms=10,
        retry_backoff_max_ms=10,
        topic_metadata_refresh_fast_interval_ms=10,
        allow_auto_create_topics=True,
    )
    options = {"topic": topic, "config": impatient, "size": 100}
    command = [sys.executable, "-m", "benchmark.rdkafka", "first_acknowledged", json.dumps(options)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=environment_of_driver(), text=True
    ) as client:
        assert client.stdout is not None
        client.stdout.readline()  # the client is ready
        start = time.time()
        system.start()
        answer = client.stdout.readline()
    if client.returncode:
        raise RuntimeError("the first record was never acknowledged")
    return json.loads(answer)["at"] - start


def command_line(system: System, size: Size, results: Results, lines: Path) -> None:
    """Measure the systems' own tools: listing topics, console producer, console consumer."""
    topics = Topics(system)
    topic = topics.make(1)
    env = environment(system)
    tools = (
        ("list topics", system.list_topics(), None),
        ("console producer", system.console_producer(topic), lines),
        ("console consumer", system.console_consumer(topic, size.console_lines), None),
    )
    for name, command, stdin in tools:
        start = time.perf_counter()
        out = run(command, env, stdin)
        seconds = time.perf_counter() - start
        if name == "console consumer" and out.count("\n") != size.console_lines:
            raise RuntimeError(f"{out.count(chr(10))} of {size.console_lines} lines came back")
        if name == "list topics":
            results.row(name, "s", "own tool", higher=False).add(system.name, seconds)
        else:
            row = results.row(name, "records/s", "own tool", higher=True)
            row.add(system.name, size.console_lines / seconds)
    topics.delete(topic)


def hostile(system: System, size: Size, results: Results) -> None:
    """Measure round trips of a client while three thousand hostile connections are open.

    Only pk runs this: fifty frames that claim 100 MB each exceed Apache's heap of a gigabyte.
    """
    topics = Topics(system)
    topic = topics.make(1)
    host, _, port = system.bootstrap.rpartition(":")
    config = producer_config(system, linger_ms=0)
    options = {"topic": topic, "config": config, "size": 100, "count": size.round_trips, "warm": 0}
    with subprocess.Popen(
        [sys.executable, "-m", "hostile.attack", host, port],
        env=environment_of_driver() | {"PYTHONPATH": str(SCRIPTS.parent / "tests")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as attack:
        times: list[float] = []
        assert attack.stdin is not None and attack.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(attack.stdout, selectors.EVENT_READ)
            while not times or not selector.select(0):  # until every attacker has had its turn
                times += drive("round_trip", options)["times_ms"]
        memory_mb = rss_mb(system.pid())
        attack.stdin.close()
    times.sort()
    name = "under 3,000 hostile connections"
    row = results.row(f"{name}: p99", "ms", LIBRDKAFKA, higher=False, limit=50)
    row.add(system.name, times[int(len(times) * 0.99)])
    row = results.row(f"{name}: memory", "MB", "/proc", higher=False, limit=200)
    row.add(system.name, memory_mb)
    topics.delete(topic)
