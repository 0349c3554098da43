"""Archives of the classes that Apache Kafka's programs load: a JVM that has one starts in half the
time, and the tests start hundreds.

`python -m clients.class_archives` makes them beside the jars if they are missing, and prints their
folder. `PK_CLASS_ARCHIVES` names it to the tests; `scripts/test --peers` and .ci/run do both.
Benchmarks go without: Apache Kafka's own scripts have none.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from clients import apache_kafka
from clients.apache_kafka import ApacheKafka, archive_of, java_command, locked


@contextmanager
def _archived_to(path: Path) -> Iterator[None]:
    """JVMs that start in the block write the classes they have loaded when they end."""
    os.environ["JAVA_TOOL_OPTIONS"] = f"-XX:ArchiveClassesAtExit={path} -Xlog:disable"
    try:
        yield
    finally:
        del os.environ["JAVA_TOOL_OPTIONS"]


def _run(folder: Path, class_name: str, *args: str, lines: str = "") -> None:
    with _archived_to(archive_of(class_name, folder)):
        subprocess.run(
            java_command(class_name, *args),
            input=lines, capture_output=True, text=True, timeout=180, check=True,
        )  # fmt: skip


def make() -> Path:
    """Make the archives that are missing, and return their folder. Raises ApacheKafkaError,
    CalledProcessError."""
    folder = apache_kafka.jars().parent / "classes"
    mark = folder / ".complete"
    with locked(folder.parent / ".classes-lock"):
        if not mark.exists():
            folder.mkdir(exist_ok=True)
            _make_all(folder)
            mark.touch()
    return folder


def _make_all(folder: Path) -> None:
    kafka = ApacheKafka(1)
    try:
        kafka.format()
        with _archived_to(archive_of("kafka.Kafka", folder)):
            kafka.start(1, wait=False)
        kafka.wait_until_ready()
        at: Sequence[str] = ("--bootstrap-server", kafka.bootstrap)
        _run(folder, "org.apache.kafka.tools.TopicCommand", *at, "--create", "--topic", "t")
        _run(folder, "org.apache.kafka.tools.ConsoleProducer", *at, "--topic", "t", lines="one\n")
        _run(
            folder,
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *at,
            *("--topic", "t", "--from-beginning", "--max-messages", "1"),
        )
        kafka.stop(1)  # in order: it writes its archive then
    finally:
        kafka.close()


if __name__ == "__main__":
    try:
        print(make())
    except (apache_kafka.ApacheKafkaError, subprocess.CalledProcessError) as e:
        sys.exit(f"no archives of classes: {e}")
