"""Measures the console tools of pk and Apache Kafka, and kcat, on both brokers, from a file and to
a file.

The figures are the time of the whole process, including its start, since a user waits for that too,
and its CPU time (user plus system) for a million records. On two cores the broker uses the other
one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from clients import apache_kafka
from clients.apache_kafka import java_command
from clients.pk_broker import pk_command, pk_environment
from confluent_kafka import Consumer, TopicPartition

from benchmark.report import Results
from benchmark.systems import TOOL_JVM, System, run
from benchmark.work import TIMEOUT_S, Size, Topics

LEAST_RATE = 150_000
"""The goal for pk's own tools, in records of 100 B a second, with the broker on the same two
cores."""

RECORDS_A_LINE = 4
"""The factor by which the tools get more lines than `size.console_lines`, so that their start does
not dominate."""


class Tool(NamedTuple):
    """A console tool: the name in its rows, its command line, its environment."""

    name: str
    command: list[str]
    env: Mapping[str, str]


class Took(NamedTuple):
    """The time and CPU time of a command."""

    seconds: float
    cpu_seconds: float


def measure(system: System, size: Size, results: Results, folder: Path) -> None:
    """Measure the console tools with one system."""
    produce(system, size, results, folder)
    consume(system, size, results, folder)


def lines_file(folder: Path, count: int) -> Path:
    """Write a file of `count` lines of 100 B, not counting the line ends."""
    path = folder / f"console-{count}.txt"
    if not path.exists():
        with path.open("w") as file:
            file.writelines(f"line {n:09d} {'x' * 85}\n" for n in range(count))
    return path


def keyed_file(folder: Path, count: int) -> Path:
    """Write a file of `count` lines with a key of 8 B, a tab and a value of 91 B. The 50,000 keys
    take turns."""
    path = folder / f"keyed-{count}.txt"
    if not path.exists():
        with path.open("w") as file:
            file.writelines(f"{n % 50_000:08d}\t{n:09d} {'x' * 81}\n" for n in range(count))
    return path


def timed(tool: Tool, *, stdin: Path | None = None, stdout: Path | None = None) -> Took:
    """Run a tool from one file to another. Raises RuntimeError if it fails."""
    with (
        (stdin or Path(os.devnull)).open("rb") as source,
        (stdout or Path(os.devnull)).open("wb") as sink,
    ):
        start = time.perf_counter()
        process = subprocess.Popen(
            tool.command, stdin=source, stdout=sink, stderr=subprocess.DEVNULL, env=dict(tool.env)
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(tool.command)[:200]}: exit code {process.returncode}")
    return Took(seconds, usage.ru_utime + usage.ru_stime)


def add(
    results: Results, system: System, name: str, tool: Tool, count: int, took: Took, *, ours: bool
) -> None:
    """Add the two rows of a measurement. The rows of pk's own tools have a rate as goal."""
    limit = LEAST_RATE if ours else None
    row = results.row(f"{name}: {tool.name}", "records/s", "console", higher=True, limit=limit)
    row.add(system.name, count / took.seconds)
    row = results.row(f"{name}: {tool.name}, CPU", "s/M", "console", higher=False)
    row.add(system.name, took.cpu_seconds * 1e6 / count)


def consumers(system: System, topic: str, count: int) -> list[Tool]:
    """Return the tools that read `count` records of a topic from its start, pk's first."""
    start = ["console-consumer", "-b", system.bootstrap, "-t", topic, "--from-beginning"]
    start += ["-n", str(count)]
    env = pk_environment()
    tools = [
        Tool("pk", pk_command(*start), env),
        Tool("pk -f '%v\\n'", pk_command(*start, "-f", "%v\\n"), env),
    ]
    if shutil.which("kcat"):
        options = ["-b", system.bootstrap, "-C", "-t", topic, "-o", "beginning", "-c", str(count)]
        tools.append(Tool("kcat", ["kcat", *options, "-q"], dict(os.environ)))
    if apache_kafka.available() is None:
        java = java_command(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", system.bootstrap, "--topic", topic, "--from-beginning"),
            *("--max-messages", str(count)),
            jvm=TOOL_JVM,
        )
        tools.append(Tool("Apache's", java, dict(os.environ)))
    return tools


def consume(system: System, size: Size, results: Results, folder: Path) -> None:
    """Measure consuming records of 100 B from 1 and from 6 partitions to a file."""
    count = size.console_lines * RECORDS_A_LINE
    lines = lines_file(folder, count)
    topics = Topics(system)
    for partitions in (1, 6):
        topic = topics.make(partitions)
        run(pk_command("produce", topic, "-b", system.bootstrap), pk_environment(), lines)
        out = folder / "console-out.txt"
        for tool in consumers(system, topic, count):
            took = timed(tool, stdout=out)
            if out.stat().st_size != lines.stat().st_size:
                raise RuntimeError(f"{tool.name} wrote {out.stat().st_size} bytes")
            name = f"consume, {partitions} partition{'s'[: partitions > 1]}"
            add(results, system, name, tool, count, took, ours=tool.name.startswith("pk"))
        out.unlink()
        topics.delete(topic)


def producers(system: System, topic: str, *, keyed: bool) -> list[Tool]:
    """Return the tools that write the lines of standard input to a topic with acks=all, pk's
    first."""
    words = ["console-producer", "-b", system.bootstrap, "-t", topic]
    words += ["-f", "%k\\t%v\\n"] if keyed else []
    tools = [Tool("pk", pk_command(*words), pk_environment())]
    if shutil.which("kcat"):
        options = ["-b", system.bootstrap, "-P", "-t", topic, "-X", "acks=all"]
        options += ["-K", "\\t"] if keyed else []
        tools.append(Tool("kcat", ["kcat", *options], dict(os.environ)))
    if apache_kafka.available() is None:
        java = java_command(
            "org.apache.kafka.tools.ConsoleProducer",
            *("--bootstrap-server", system.bootstrap, "--topic", topic),
            *(("--reader-property", "parse.key=true") if keyed else ()),
            jvm=TOOL_JVM,
        )
        tools.append(Tool("Apache's", java, dict(os.environ)))
    return tools


def produce(system: System, size: Size, results: Results, folder: Path) -> None:
    """Measure producing lines of 100 B from a file, to 1 and to 6 partitions, and with keys."""
    count = size.console_lines * RECORDS_A_LINE
    topics = Topics(system)
    for partitions, keyed in ((1, False), (6, False), (6, True)):
        lines = keyed_file(folder, count) if keyed else lines_file(folder, count)
        name = (
            f"produce{' with keys' if keyed else ''}, {partitions} partition{'s'[: partitions > 1]}"
        )
        for number in range(len(producers(system, "", keyed=keyed))):
            topic = topics.make(partitions)
            tool = producers(system, topic, keyed=keyed)[number]
            took = timed(tool, stdin=lines)
            there = records_in(system, topic, partitions)
            if there != count:
                raise RuntimeError(f"{tool.name} wrote {there} of {count} records")
            add(results, system, name, tool, count, took, ours=tool.name.startswith("pk"))
            topics.delete(topic)


def records_in(system: System, topic: str, partitions: int) -> int:
    """Return the sum of the end offsets of a new topic."""
    consumer = Consumer({"bootstrap.servers": system.bootstrap, "group.id": "bench"})
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, n), TIMEOUT_S)[1]
            for n in range(partitions)
        )
    finally:
        consumer.close()
