"""Apache Flink's connector for Kafka: a job copies a topic, exactly once, and is killed in the
middle; another resumes from its last checkpoint.

Slow: `scripts/test -m "slow and peer" tests/clients/test_flink.py`.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest
from confluent_kafka import Producer

from clients import apache_kafka
from clients.fixtures import Kafka
from clients.readers import CommittedReader
from clients.topics import TIMEOUT_S, create_topic, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.peer]

SOURCE: Final = Path(__file__).parent / "flink" / "FlinkCopy.java"
JVM: Final = (
    *("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("--add-opens", "java.base/java.util=ALL-UNNAMED"),
    *("--add-opens", "java.base/java.lang=ALL-UNNAMED"),
)
READY_S: Final = 300.0
STEP: Final = 500

Fresh = Callable[[str], str]


class Job:
    """The job in a process of its own; killed at the end of the block."""

    def __init__(self, folder: Path, *words: str) -> None:
        program = apache_kafka.java()
        assert program is not None
        classes = f"{apache_kafka.flink_jars()}/*"
        self.log = folder / "flink.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [program, *JVM, "-cp", classes, str(SOURCE), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        self._process.kill()
        self._process.wait()


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that is complete, or None."""
    found = [path.parent for path in folder.glob("*/chk-*/_metadata")]
    return max(found, key=lambda path: int(path.name[4:]), default=None)


def test_a_job_that_is_killed_goes_on_from_its_checkpoint(
    kafka: Kafka, fresh: Fresh, tmp_path: Path
) -> None:
    source, sink = create_topic(kafka, fresh("flink-in")), create_topic(kafka, fresh("flink-out"))
    checkpoints = tmp_path / "checkpoints"
    words = [kafka.bootstrap, source, sink, str(checkpoints)]
    producer = Producer({"bootstrap.servers": kafka.bootstrap})

    def produce(numbers: range) -> None:
        for n in numbers:
            producer.produce(source, b"%d" % n)
        assert producer.flush(TIMEOUT_S) == 0

    with contextlib.ExitStack() as stack:
        job = stack.enter_context(Job(tmp_path, *words))
        reader = stack.enter_context(CommittedReader(kafka.bootstrap, sink))
        produce(range(STEP))
        try:
            reader.wait_for(STEP, READY_S)
        except AssertionError as error:
            raise AssertionError(job.log.read_text()[-4000:]) from error
        produce(range(STEP, 2 * STEP))
        job.kill()
        checkpoint = wait_until("a checkpoint", lambda: last_checkpoint(checkpoints))
        stack.enter_context(Job(tmp_path, *words, str(checkpoint)))
        produce(range(2 * STEP, 3 * STEP))
        reader.wait_for(3 * STEP, READY_S)
        assert [int(value) for value in reader.values] == list(range(3 * STEP))
