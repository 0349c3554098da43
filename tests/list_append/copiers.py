"""Other clients beside librdkafka's: each copies a topic of its own exactly once, and is killed now
and then.

Java's is Apache's TransactionalMessageCopier, franz-go's is `clients/franz/main.go`, aiokafka's is
`list_append.aiokafka_copier`. An idempotent producer fills the source of each, and each aborts some
of its transactions. At the end the copy must hold each record of the source once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from clients import apache_kafka
from clients.franz_go import build_franz
from clients.load import Load
from clients.topics import commit
from list_append.clients import read_committed

JAVA_COPIER: Final = "org.apache.kafka.tools.TransactionalMessageCopier"
REQUEST_MS: Final = 10_000
"""How long the source's producer waits for an answer: brokers that starve beside others are
slow."""

LIFE_S: Final = 20.0
"""A copier is killed this long after it was first seen to copy. Its age would not do: on a busy
machine a JVM needs a minute to start, and Java's waits 45 s for the end of the dead member's
session; copiers that are killed before copy nothing in an hour."""

STALLED_S: Final = 600.0
"""A copier that does not copy is killed after this long."""

LOOK_S: Final = 2.0

Command = Callable[[str, str, str], list[str]]
"""The command line of a copier, from the address of a broker, the source and the sink."""


def commands(folder: Path) -> dict[str, Command]:
    """The copiers that this machine can run, by name. Programs that must be built are built in
    `folder`."""
    found: dict[str, Command] = {"aiokafka": _aiokafka}
    if apache_kafka.available() is None:
        found["java"] = _java
    if shutil.which("go") is not None:
        program = build_franz(folder)

        def franz(bootstrap: str, source: str, sink: str) -> list[str]:
            return [str(program), "copy", bootstrap, sink, source, sink, sink, "-1"]

        found["franz-go"] = franz
    return found


def _aiokafka(bootstrap: str, source: str, sink: str) -> list[str]:
    return [sys.executable, "-m", "list_append.aiokafka_copier", bootstrap, source, sink]


def _java(bootstrap: str, source: str, sink: str) -> list[str]:
    return apache_kafka.java_command(
        JAVA_COPIER,
        *("--broker-list", bootstrap, "--input-topic", source, "--input-partition", "0"),
        *("--output-topic", sink, "--max-messages", "-1", "--consumer-group", sink),
        *("--transaction-size", "10", "--transactional-id", sink),
        *("--transaction-timeout", "15000", "--enable-random-aborts", "--group-mode"),
    )


class Copier(threading.Thread):
    """Keeps a copier running, and starts another when it has ended."""

    def __init__(self, name: str, command: Command, bootstrap: str, folder: Path) -> None:
        super().__init__(name=name, daemon=True)
        self._errors = folder / f"{name}.err"
        self.source, self.sink = topics(name)
        self.bootstrap = bootstrap
        self.load = Load(bootstrap, self.source, rate=5, timeout_ms=REQUEST_MS)
        self.stopping = threading.Event()
        self.starts = 0
        self.copied = 0
        """Records of the copy, once it is finished."""

        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._unwritten = ""

    def run(self) -> None:
        """Copy until `stopping`."""
        self._commit_the_beginning()
        self.load.__enter__()
        while not self.stopping.is_set():
            self._start()
            self._watch()
            self._kill()

    def _watch(self) -> None:
        """Until it has ended, or must be killed."""
        until, seen = time.monotonic() + STALLED_S, list[int]()
        with self._group() as group:
            while self._is_running() and time.monotonic() < until:
                if self.stopping.wait(LOOK_S):
                    return
                if len(seen) > 2:
                    continue
                with contextlib.suppress(confluent_kafka.KafkaException):  # asked again
                    (committed,) = group.committed([self._place()], LOOK_S)
                    if committed.offset not in seen[-1:]:
                        seen.append(committed.offset)
                # The first was there before, the second may be of the transaction of a dead one.
                if len(seen) > 2:
                    until = time.monotonic() + LIFE_S

    def end_source(self) -> None:
        """Write nothing more to the source; from here on the copier is left alone."""
        self.stopping.set()
        self.join()
        self._start()
        try:
            self.load.finish()
        except AssertionError as e:
            self._unwritten = f"its source could not be written: {e}"

    def finish(self, within_s: float) -> str:
        """Copy to the end, as long as there is progress in each `within_s`. Return what is wrong
        with the copy, or "" if it equals the source."""
        if self._unwritten:
            self._kill()
            return self._unwritten
        copied = 0
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            if not self._is_running():
                self._kill()
                self._start()
            before, copied = copied, len(self._values(self.sink)[0])
            if copied >= len(self.load.acknowledged):
                break
            if copied > before:
                until = time.monotonic() + within_s
            time.sleep(1)
        self._kill()
        values, whole = self._values(self.sink, within_s)
        source, source_whole = self._values(self.source, within_s)
        self.copied = len(values)
        if not (whole and source_whole):
            return "it and its source could not be read to their ends"
        return _difference(source, values)

    def _commit_the_beginning(self) -> None:
        """Commit an offset for the group, because aiokafka takes a coordinator's error for "no
        offset" (it reads errors of partitions only, as versions 0 and 1 of OffsetFetch had them),
        and must not begin at 0 then."""
        with self._group() as group:
            commit(group, [self._place(0)])

    @contextlib.contextmanager
    def _group(self) -> Iterator[Any]:
        """A consumer that asks for and commits the group's offset, and is no member."""
        config = {"bootstrap.servers": self.bootstrap, "group.id": self.sink, "log_level": 0}
        consumer: Any = confluent_kafka.Consumer(config)
        try:
            yield consumer
        finally:
            consumer.close()

    def _place(self, offset: int = confluent_kafka.OFFSET_INVALID) -> Any:
        return confluent_kafka.TopicPartition(self.source, 0, offset)

    def _start(self) -> None:
        self.starts += 1
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                self._command(self.bootstrap, self.source, self.sink),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={name: v for name, v in os.environ.items() if not name.startswith("PK_CHECK_")},
            )

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _values(self, topic: str, within_s: float = 60) -> tuple[list[str], bool]:
        """The committed values, and whether these are all."""
        at = (topic, 0)
        found, whole = read_committed(f"{self.name}-reader", self.bootstrap, [at], within_s)
        return [value for _, value in found[at]], whole


def topics(name: str) -> tuple[str, str]:
    """The source and the sink of a copier; each has one partition."""
    return f"{name}-in", f"{name}-out"


def _difference(source: list[str], sink: list[str]) -> str:
    twice = [value for value, count in Counter(sink).items() if count > 1]
    if twice:
        return f"{len(twice)} values are copied twice, first {min(twice)!r}"
    if lost := set(source) - set(sink):
        return f"{len(lost)} of {len(source)} values are not copied, first {min(lost)!r}"
    if extra := set(sink) - set(source):
        return f"{len(extra)} values of the copy are not in the source, first {min(extra)!r}"
    return ""
