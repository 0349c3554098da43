"""Measures the cost of tiered storage, with a directory as the store. `scripts/bench --tiered`.

    produce     to a topic that is copied: at most 10 % slower than to a topic that is not tiered
    read        segments that are only in the store: at least half as fast as a topic on the disk
    many        100,000 remote segments: the broker's memory, and the time from its start until it
                knows all of them

The two sides of a comparison take turns on one broker, so that other load on the machine affects
both. Apache Kafka uses its LocalTieredStorage, a store for its own tests, which is also a
directory. The measurement `many` does not run with Apache Kafka.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
from clients import apache_kafka
from clients.pk_broker import pk_command, pk_environment
from confluent_kafka.admin import AdminClient
from rich.console import Console

from benchmark import report
from benchmark.__main__ import make
from benchmark.report import Results
from benchmark.systems import System, cpu_seconds, rss_mb, running, touch_memory
from benchmark.work import LIBRDKAFKA, TIMEOUT_S, Topics, client_config, drive, producer_config
from pk.core.log.epochs import EpochStart
from pk.core.log.remote.metadata import (
    RemotePartition,
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
    encode_record,
)
from pk.core.values import REMOTE_METADATA_TOPIC, uuid_from_text

PARTS = ("produce", "read", "many")
SEGMENT_BYTES = 16 << 20
RECORD_BYTES = 1000
SEGMENTS = 100_000
PRODUCE_SHARE, READ_SHARE = 0.9, 0.5
TIERED = {
    "remote_storage_enable": "true",
    "segment_bytes": str(SEGMENT_BYTES),
    "local_retention_bytes": "0",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench --tiered", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the work")
    parser.add_argument("--rounds", type=int, default=3, help="rounds a measurement (default 3)")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part only")
    parser.add_argument("--without-apache", action="store_true", help="measure pk alone")
    parser.add_argument("--json", type=Path, default=Path("bench-tiered.json"), metavar="FILE")
    parser.add_argument("--dir", type=Path, help="the directory for the data (default: temporary)")
    options = parser.parse_args()
    console, log = Console(width=None if sys.stdout.isatty() else 120), Console(stderr=True)
    megabytes, segments = (200, SEGMENTS // 5) if options.quick else (1000, SEGMENTS)
    results = Results()
    work: dict[str, Callable[[System], None]] = {
        "produce": lambda system: produce(system, megabytes, options.rounds, results),
        "read": lambda system: read(system, megabytes, options.rounds, results),
        "many": lambda system: many(system, segments, results),
    }
    names = ["pk"]
    if not options.without_apache:
        if (reason := apache_kafka.available()) is None:
            names.append("apache")
        else:
            log.print(f"Apache Kafka is skipped: {reason}.")
    for part in options.only or PARTS:
        for name in names if part != "many" else names[:1]:
            with tempfile.TemporaryDirectory(prefix="pk-bench-", dir=options.dir) as folder:
                log.print(f"{part} of {name}, load {os.getloadavg()[0]:.1f}")
                directory = Path(folder) / name
                system = make(name, directory, _properties(name, Path(folder) / "store"))
                with running(system, directory):
                    work[part](system)
    report.show(results, console)
    settings = {"megabytes": megabytes, "segments": segments, "rounds": options.rounds}
    report.write(results, settings, options.json)
    return 0


def _properties(name: str, store: Path) -> dict[str, str]:
    both = {
        "remote.log.storage.system.enable": "true",
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
    }
    if name == "pk":
        return both | {
            "pk.remote.url": f"file://{store}",
            "pk.remote.metadata.partitions": "1",
            "pk.remote.metadata.replication.factor": "1",
        }
    return both | apache_kafka.TIERED | {
        "remote.log.storage.manager.class.path": str(apache_kafka.tiered_jar()),
        "rsm.config.dir": str(store),
    }  # fmt: skip


def _offset(system: System, topic: str, when: str) -> int:
    """Return an offset of partition 0 that has a special timestamp; -1 if there is none."""
    words = ("topics", "offsets", topic, "--time", when, "-f", "json", "-b", system.bootstrap)
    found = subprocess.run(
        pk_command(*words), env=pk_environment(), capture_output=True, check=True, text=True
    )
    offset = json.loads(found.stdout)[0]["begin"]
    return -1 if offset is None else int(offset)


def _produced(system: System, topic: str, megabytes: int) -> tuple[float, float]:
    """Produce records. Returns the seconds that this took, and the seconds of the broker's CPU
    time."""
    options = {"topic": topic, "config": producer_config(system), "size": RECORD_BYTES}
    options |= {"partitions": 1, "count": megabytes * 1000}
    touch_memory(2 * megabytes)
    before = cpu_seconds(system.pid())
    seconds = drive("produce", options)["seconds"]
    return seconds, cpu_seconds(system.pid()) - before


def produce(system: System, megabytes: int, rounds: int, results: Results) -> None:
    """Produce the same records to a topic that is copied meanwhile, and to a topic that is not."""
    topics = Topics(system)
    rate = results.row("produce, tiered", "MB/s", LIBRDKAFKA, higher=True)
    plain = results.row("produce, not tiered", "MB/s", LIBRDKAFKA, higher=True)
    share = results.row("produce, tiered / not", "", LIBRDKAFKA, higher=True, limit=PRODUCE_SHARE)
    for _ in range(rounds + 1):  # the first one warms up the broker
        sides: dict[bool, float] = {}
        for tiered in (False, True):
            keys = TIERED if tiered else {"segment_bytes": str(SEGMENT_BYTES)}
            topic = topics.make(1, **keys)
            seconds, _ = _produced(system, topic, megabytes)
            sides[tiered] = megabytes / seconds
            if tiered:
                _await_copies(system, topic, megabytes)
            topics.delete(topic)
        if _:
            rate.add(system.name, sides[True])
            plain.add(system.name, sides[False])
            share.add(system.name, sides[True] / sides[False])


def _await_copies(system: System, topic: str, megabytes: int) -> None:
    """Wait until only the last segment is on the disk."""
    due = megabytes * 1000 - 2 * SEGMENT_BYTES // RECORD_BYTES
    deadline = time.monotonic() + TIMEOUT_S * 5
    while _offset(system, topic, "earliest-local") < due:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} was not copied")
        time.sleep(0.2)


def read(system: System, megabytes: int, rounds: int, results: Results) -> None:
    """Read the same records from the store and from the page cache. The broker's cache for remote
    segments is smaller than a topic."""
    topics = Topics(system)
    local = topics.make(1, segment_bytes=str(SEGMENT_BYTES))
    remote = topics.make(1, **TIERED)
    for topic in (local, remote):
        _produced(system, topic, megabytes)
    _await_copies(system, remote, megabytes)
    fast = results.row("read, local", "MB/s", LIBRDKAFKA, higher=True)
    rate = results.row("read, remote", "MB/s", LIBRDKAFKA, higher=True)
    share = results.row("read, remote / local", "", LIBRDKAFKA, higher=True, limit=READ_SHARE)
    cpu = results.row("read, remote: broker CPU", "s/GB", LIBRDKAFKA, higher=False)
    options = {"config": client_config(system), "partitions": 1, "count": megabytes * 1000}
    for _ in range(rounds):
        here = megabytes / drive("consume", options | {"topic": local})["seconds"]
        before = cpu_seconds(system.pid())
        there = megabytes / drive("consume", options | {"topic": remote})["seconds"]
        cpu.add(system.name, (cpu_seconds(system.pid()) - before) * 1000 / megabytes)
        fast.add(system.name, here)
        rate.add(system.name, there)
        share.add(system.name, there / here)


def many(system: System, segments: int, results: Results) -> None:
    """Measure a partition with `segments` remote segments, of one record each, all still on the
    disk, and added to the metadata directly."""
    topics = Topics(system)
    keys = {"remote_storage_enable": "true", "remote_log_copy_disable": "true"}
    name = topics.make(1, retention_ms="-1", **keys)
    options = {"topic": name, "config": producer_config(system), "size": 10}
    drive("produce", options | {"partitions": 1, "count": segments})
    before_mb = _restarted_mb(system, name, -1, None)
    _note(system, name, segments)
    seconds: list[float] = []
    after_mb = _restarted_mb(system, name, segments - 1, seconds)
    about = f"{segments:,} remote segments"
    memory = results.row(f"{about}: memory more", "MB", "", higher=False)
    memory.add(system.name, after_mb - before_mb)
    start = results.row(f"{about}: known after a start", "s", "", higher=False)
    start.add(system.name, seconds[0])


def _restarted_mb(system: System, topic: str, last: int, seconds: list[float] | None) -> float:
    """Restart the broker, and return its memory once it knows the remote segments up to `last`.
    Adds the time that this took to `seconds`."""
    system.stop()
    began = time.monotonic()
    system.start()
    system.wait_until_ready()
    while _offset(system, topic, "latest-tiered") != last:
        if time.monotonic() - began > TIMEOUT_S * 5:
            raise RuntimeError("the remote segments were not read")
    if seconds is not None:
        seconds.append(time.monotonic() - began)
    return rss_mb(system.pid())


def _note(system: System, name: str, segments: int) -> None:
    """Write the metadata of that many segments, with two records each."""
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    found = admin.describe_topics(confluent_kafka.TopicCollection([name]))[name].result(TIMEOUT_S)
    partition = RemotePartition(name, uuid_from_text(str(found.topic_id)), 0)
    config = producer_config(system, queue_buffering_max_messages=1_000_000)
    producer = confluent_kafka.Producer(config)
    for n in range(segments):
        segment = RemoteSegment(
            partition, n.to_bytes(16, "big"), n, n, 1, 0, 0, (EpochStart(0, n),), 100,
            SegmentState.COPY_STARTED,
        )  # fmt: skip
        update = SegmentUpdate(partition, segment.id, 1, 0, SegmentState.COPY_FINISHED)
        for record in (segment, update):
            producer.produce(REMOTE_METADATA_TOPIC, encode_record(record), partition=0)
        producer.poll(0)
    if producer.flush(TIMEOUT_S):
        raise RuntimeError("the metadata was not written")


if __name__ == "__main__":
    sys.exit(main())
