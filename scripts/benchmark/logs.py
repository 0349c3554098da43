"""Compares the logs of pk and Apache Kafka: starts, recovery, compaction, reads from a cold disk,
offsets by time, and a coordinator's replay of its log. `scripts/bench --log`.

Each measurement stops, kills and starts its broker, so the two systems take turns, and only one
runs at a time. The records are those of scripts/bench. Files are removed from the page cache one by
one (posix_fadvise), so that other programs keep their pages.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
from clients import apache_kafka
from rich.console import Console

from benchmark import report
from benchmark.__main__ import in_turn, make
from benchmark.report import Results
from benchmark.systems import System, running
from benchmark.work import (
    LIBRDKAFKA,
    TIMEOUT_S,
    Topics,
    client_config,
    drive,
    producer_config,
    seconds_to_first,
)

librdkafka: Any = confluent_kafka.admin

PARTS = ("start", "recovery", "compaction", "cold", "replay")
PARTITIONS_A_TOPIC = 1000
RECOVERY_PARTITION_MB = 700
"""Less than the size of a segment, since a full segment has been synced."""
COMPACTED_MS = 300_000
LOOKUPS = 300
ROUND_TRIPS = 1_000
OFFSETS_A_COMMIT = 1_000
REPLAY_S = 600.0


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """The amount of work in each measurement."""

    partitions: int
    unclean_mb: int
    keyed_mb: int
    cold_mb: int
    replayed: int
    """The records in the log of one group coordinator."""


FULL = Size(10_000, 3_000, 500, 2_000, 1_000_000)
QUICK = Size(2_000, 300, 100, 300, 100_000)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench --log", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--rounds", type=int, default=1, help="rounds a measurement (default 1)")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part only")
    parser.add_argument("--unclean-mb", type=int, help="size of the log that is not closed (3000)")
    parser.add_argument("--partitions", type=int, help="partitions of the clean start (10000)")
    parser.add_argument("--without-apache", action="store_true", help="measure pk alone")
    parser.add_argument("--json", type=Path, default=Path("bench-log.json"), metavar="FILE")
    parser.add_argument("--dir", type=Path, help="the directory for the data (default: temporary)")
    options = parser.parse_args()
    console, log = Console(width=None if sys.stdout.isatty() else 120), Console(stderr=True)
    size = QUICK if options.quick else FULL
    size = dataclasses.replace(
        size,
        unclean_mb=options.unclean_mb or size.unclean_mb,
        partitions=options.partitions or size.partitions,
    )
    names = ["pk"]
    if not options.without_apache:
        if (reason := apache_kafka.available()) is None:
            apache_kafka.jars()
            names.append("apache")
        else:
            log.print(f"Apache Kafka is skipped: {reason}.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers end too
    results, parts = Results(), options.only or list(PARTS)
    work: dict[str, Callable[[System, Size, Results, Path], None]] = {
        "start": clean_start,
        "recovery": recovery,
        "compaction": compaction,
        "cold": cold_reads,
        "replay": replay,
    }
    with tempfile.TemporaryDirectory(prefix="pk-bench-", dir=options.dir) as folder:
        for number in range(options.rounds):
            for part in parts:
                for name in in_turn(names, number):
                    log.print(
                        f"round {number + 1}: {part} of {name}, load {os.getloadavg()[0]:.1f}"
                    )
                    directory = Path(folder) / name
                    system = make(name, directory, _properties(part))
                    with running(system, directory):
                        work[part](system, size, results, directory)
    report.show(results, console)
    settings = {"size": dataclasses.asdict(size), "rounds": options.rounds, "parts": parts}
    report.write(results, settings, options.json)
    log.print(f"Written to {options.json}.")
    return 0


def _properties(part: str) -> dict[str, str]:
    """Return the settings of both systems for a part of the benchmark."""
    if part == "compaction":
        return {"log.cleaner.backoff.ms": "500", "log.cleaner.min.cleanable.ratio": "0.01"}
    if part == "replay":
        return {"offsets.topic.segment.bytes": str(1 << 30)}  # nothing is compacted meanwhile
    return {}


def clean_start(system: System, size: Size, results: Results, _: Path) -> None:
    """Measure the start of a broker that was stopped cleanly, with many partitions of one record
    each."""
    topics = Topics(system)
    names = []
    left = size.partitions
    while left:
        several = min(PARTITIONS_A_TOPIC, left)
        names.append(topics.make(several))
        options = {"topic": names[-1], "config": producer_config(system), "size": 100}
        drive("produce", options | {"partitions": several, "count": several})
        left -= several
    system.stop()
    seconds = seconds_to_first(system, names[-1])
    row = results.row(
        f"clean start, {size.partitions} partitions, to the first record",
        "s",
        LIBRDKAFKA,
        higher=False,
        limit=5,
    )
    row.add(system.name, seconds)
    system.wait_until_ready()


def recovery(system: System, size: Size, results: Results, _: Path) -> None:
    """Measure the time from the start of a broker that was killed with unsynced records until a new
    record is in the same log."""
    topics = Topics(system)
    partitions = max(2, -(-size.unclean_mb // RECOVERY_PARTITION_MB))
    topic = topics.make(partitions)
    options = {"topic": topic, "config": producer_config(system), "size": 1000}
    options |= {"partitions": partitions, "count": size.unclean_mb * 1000}
    drive("produce", options)
    system.kill()
    seconds = seconds_to_first(system, topic)
    name = f"start after kill -9, {size.unclean_mb} MB unsynced"
    results.row(name, "s", LIBRDKAFKA, higher=False, goal=0.25).add(system.name, seconds)
    row = results.row(f"{name}: recovered", "MB/s", LIBRDKAFKA, higher=True)
    row.add(system.name, size.unclean_mb / seconds)
    system.wait_until_ready()


def compaction(system: System, size: Size, results: Results, directory: Path) -> None:
    """Measure the time from when a topic is due for compaction until its old segments are
    compacted, and the effect on a client."""
    topics = Topics(system)
    other = topics.make(1)
    topic = topics.make(1, segment_bytes=str(64 << 20))
    options = {"topic": topic, "config": producer_config(system), "size": 100, "keyed": True}
    drive("produce", options | {"partitions": 1, "count": size.keyed_mb * 10_000})
    trips = {"topic": other, "config": producer_config(system, linger_ms=0), "size": 100}
    trips |= {"count": ROUND_TRIPS, "warm": 200}
    alone = drive("round_trip", trips)["times_ms"]
    before = _log_bytes(directory, topic)
    done = threading.Event()
    beside: list[float] = []

    def produce() -> None:
        while not done.is_set():
            beside.extend(drive("round_trip", trips | {"warm": 0})["times_ms"])

    client = threading.Thread(target=produce)
    client.start()
    try:
        start = time.perf_counter()
        _set(system, topic, "cleanup.policy", "compact")
        deadline = start + COMPACTED_MS / 1000
        # The active segment remains, and little of the others: ten thousand keys.
        while _log_bytes(directory, topic) > (64 << 20) + before // 10:
            if time.perf_counter() > deadline:
                raise RuntimeError(f"{topic} was not compacted")
            time.sleep(0.05)
        seconds = time.perf_counter() - start
    finally:
        done.set()
        client.join()
    row = results.row("compaction, 100 B records", "MB/s", "files", higher=True)
    row.add(system.name, before / 1e6 / seconds)
    for what, times in (("alone", alone), ("beside compaction", beside)):
        times.sort()
        for percent in (50, 99):
            name = f"produce round trip {what}, p{percent}"
            row = results.row(name, "ms", LIBRDKAFKA, higher=False)
            row.add(system.name, times[len(times) * percent // 100])


def cold_reads(system: System, size: Size, results: Results, directory: Path) -> None:
    """Measure reading a topic and looking up offsets by time, while the page cache does not hold
    the topic, and for comparison while it does."""
    topics = Topics(system)
    topic = topics.make(1, segment_bytes=str(256 << 20))
    count = size.cold_mb * 1000
    options = {"topic": topic, "config": producer_config(system), "size": 1000}
    drive("produce", options | {"partitions": 1, "count": count})
    reads = {"topic": topic, "config": client_config(system), "partitions": 1, "count": count}
    row = results.row("consume 1000 B, just written", "MB/s", LIBRDKAFKA, higher=True)
    row.add(system.name, size.cold_mb / drive("consume", reads)["seconds"])
    system.stop()
    system.start()
    system.wait_until_ready()
    for what, cold in (("after a restart", False), ("from a cold disk", True), ("again", False)):
        if cold:
            _drop(directory, topic)
        row = results.row(f"consume 1000 B, {what}", "MB/s", LIBRDKAFKA, higher=True)
        row.add(system.name, size.cold_mb / drive("consume", reads)["seconds"])
    _drop(directory, topic)
    _ask_times(system, topic, count, results)


def replay(system: System, size: Size, results: Results, _: Path) -> None:
    """Measure the time from the start of a broker that was stopped cleanly until a group's
    committed offsets are returned, with few records in the coordinator's log and with many."""
    topic = Topics(system).make(OFFSETS_A_COMMIT)
    for commits in (1, size.replayed // OFFSETS_A_COMMIT):
        _commit(system, topic, commits)
        system.stop()
        started = time.perf_counter()
        system.start()
        _await_committed(system, topic, commits)
        seconds = time.perf_counter() - started
        name = f"restart to committed offsets, {commits * OFFSETS_A_COMMIT:,} commits before"
        row = results.row(name, "s", LIBRDKAFKA, higher=False, goal=1 if commits > 1 else None)
        row.add(system.name, seconds)
        system.wait_until_ready()


def _commit(system: System, topic: str, commits: int) -> None:
    """Commit the offsets of every partition of a topic `commits` times: the numbers from 1 on."""
    consumer = confluent_kafka.Consumer(client_config(system, group_id="replayed"))
    try:
        for number in range(1, commits + 1):
            offsets = [
                confluent_kafka.TopicPartition(topic, p, number) for p in range(OFFSETS_A_COMMIT)
            ]
            deadline = time.monotonic() + REPLAY_S
            while True:
                try:
                    committed = consumer.commit(offsets=offsets, asynchronous=False) or ()
                    break
                except confluent_kafka.KafkaException:  # the coordinator is not ready yet
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
            for one in committed:
                if one.error is not None:
                    raise RuntimeError(f"{one} was not committed")
    finally:
        consumer.close()


def _await_committed(system: System, topic: str, offset: int) -> None:
    """Request a committed offset until it is returned."""
    consumer = confluent_kafka.Consumer(
        client_config(
            system, group_id="replayed", reconnect_backoff_ms=5, reconnect_backoff_max_ms=20
        )
    )
    asked = [confluent_kafka.TopicPartition(topic, OFFSETS_A_COMMIT - 1)]
    deadline = time.monotonic() + REPLAY_S
    try:
        while time.monotonic() < deadline:
            try:
                (found,) = consumer.committed(asked, timeout=1)
            except confluent_kafka.KafkaException:
                time.sleep(0.01)
                continue
            if found.offset != offset:
                raise RuntimeError(f"{offset} was committed, and {found.offset} is found")
            return
        raise RuntimeError("the group's coordinator does not answer")
    finally:
        consumer.close()


def _ask_times(system: System, topic: str, count: int, results: Results) -> None:
    """Look up offsets by time, first from a cold disk."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": system.bootstrap, "group.id": "-", "log_level": 0}
    )
    chance, times = random.Random(count), []
    try:
        first, last = (_time_at(consumer, topic, offset) for offset in (0, count - 1))
        before = _read_bytes(system.pid())
        for _ in range(LOOKUPS):
            wanted = confluent_kafka.TopicPartition(topic, 0, chance.randint(first, last))
            start = time.perf_counter()
            [found] = consumer.offsets_for_times([wanted], timeout=TIMEOUT_S)
            times.append((time.perf_counter() - start) * 1000)
            if found.error or not 0 <= found.offset < count:
                raise RuntimeError(f"no offset at {wanted.offset}: {found}")
        read = _read_bytes(system.pid()) - before
    finally:
        consumer.close()
    times.sort()
    for percent in (50, 99):
        name = f"offset by time, p{percent}"
        row = results.row(name, "ms", LIBRDKAFKA, higher=False)
        row.add(system.name, times[len(times) * percent // 100])
    row = results.row("offset by time: read by the broker", "kB each", "/proc", higher=False)
    row.add(system.name, read / LOOKUPS / 1000)


def _time_at(consumer: confluent_kafka.Consumer, topic: str, offset: int) -> int:
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, offset)])
    deadline = time.monotonic() + TIMEOUT_S
    while (message := consumer.poll(1)) is None or message.error():
        if time.monotonic() > deadline:
            raise RuntimeError(f"no record at {offset} of {topic}")
    consumer.unassign()
    return message.timestamp()[1]


def _set(system: System, topic: str, key: str, value: str) -> None:
    admin = librdkafka.AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    entry = librdkafka.ConfigEntry(
        key, value, incremental_operation=librdkafka.AlterConfigOpType.SET
    )
    resource = librdkafka.ConfigResource(
        librdkafka.ConfigResource.Type.TOPIC, topic, incremental_configs=[entry]
    )
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)


def _log_bytes(directory: Path, topic: str) -> int:
    """Return the size of a topic's segments, except those that are being added or removed."""
    total = 0
    for file in directory.rglob(f"{topic}-*/*.log"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            continue  # just replaced
    return total


def _drop(directory: Path, topic: str) -> None:
    """Drop a topic's files from the page cache."""
    subprocess.run(["sync"], check=True)
    for file in directory.rglob(f"{topic}-*/*"):
        fd = os.open(file, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def _read_bytes(pid: int) -> int:
    """Return the bytes that a process has read by system calls, from any file. Reads from mapped
    files do not count."""
    found = re.search(r"rchar: (\d+)", Path(f"/proc/{pid}/io").read_text())
    return int(found[1]) if found else 0


if __name__ == "__main__":
    if shutil.which("sync") is None:
        sys.exit("scripts/bench --log needs sync, posix_fadvise and /proc: Linux.")
    sys.exit(main())
