"""A pytest plugin with parts that tests of group commands share: a topic with known times, and
members that read it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clients.fixtures import Kafka
from clients.pk_broker import pk_environment, start_pk

Run = Callable[..., Any]
Fresh = Callable[[str], str]
FIRST_MS = 1_000_000_000_000
"""The time of the first record of partition 0."""


def committed(at: Run, group: str) -> dict[tuple[str, int], int | None]:
    """The committed offsets of a group, from `pk groups describe`."""
    (found,) = at("groups", "describe", group, "-f", "json").json
    return {(o["topic"], o["partition"]): o["committed"] for o in found["offsets"]}


def make_topic(at: Run, name: str) -> str:
    """A topic of two partitions. Partition 0 has ten records, a second apart from FIRST_MS on;
    partition 1 has four with the current time."""
    # Retention would otherwise delete records this old in the middle of a test.
    at("topics", "create", name, "-p", "2", "-c", "retention.ms=-1")
    lines = "\n".join(f"{FIRST_MS + i * 1000} {i}" for i in range(10))
    at("produce", name, "-p", "0", "-f", "%T %v", stdin=lines.encode())
    at("produce", name, "-p", "1", stdin=b"a\nb\nc\nd\n")
    return name


@pytest.fixture
def timed_topic(at: Run, fresh: Fresh) -> str:
    """The topic that `make_topic` makes."""
    return make_topic(at, fresh("reset"))


class Reader:
    """A member of a group in a separate process, which has read something (unless `read` is
    False)."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, *words: str, read: bool = True
    ) -> None:
        self.group = group
        self.process = start_pk(
            "consume",
            topic,
            *("-b", bootstrap, "-g", group, "--from-beginning", *words),
            env=pk_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=_interruptible,
        )
        self.read(1 if read else 0)

    def read(self, records: int) -> None:
        """Waits until it has shown `records` more."""
        assert self.process.stdout is not None
        for _ in range(records):
            assert self.process.stdout.readline()

    def leave(self) -> int:
        """Ends it like Ctrl-C: it commits and leaves the group. Returns its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)

    def close(self) -> None:
        """Ends it if it is still running."""
        self.process.terminate()
        self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def readers(kafka: Kafka, timed_topic: str) -> Iterator[Callable[..., Reader]]:
    """`readers(group, *words)`: starts a member that reads `timed_topic`; all of them end with the
    test."""
    made: list[Reader] = []

    def start(group: str, *words: str, read: bool = True) -> Reader:
        made.append(Reader(kafka.bootstrap, group, timed_topic, *words, read=read))
        return made[-1]

    yield start
    for reader in made:
        reader.close()
