"""Members of consumer groups as processes: the three Python libraries, kcat, and Apache's
console."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from clients import apache_kafka

LEAVE_TIMEOUT_S = 60.0
CONSUMER_PROTOCOL = "consumer"
_JAVA_ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


@dataclasses.dataclass(frozen=True)
class Kind:
    """A client and the assignor it offers, or CONSUMER_PROTOCOL."""

    client: str
    assignor: str = "range"

    @property
    def by_consumer_protocol(self) -> bool:
        """Whether the coordinator assigns (KIP-848)."""
        return self.assignor == CONSUMER_PROTOCOL

    def __str__(self) -> str:
        return f"{self.client}-{self.assignor}"

    def missing(self) -> str | None:
        """Why it cannot run here, if it cannot."""
        if self.client == "kcat" and not shutil.which("kcat"):
            return "kcat is not installed"
        return apache_kafka.available() if self.client == "apache-console" else None


class Member:
    """One member, running. A thread collects its output.

    `seen` are the (partition, offset) pairs it processed, in order; `assigned` and `revoked` what
    its rebalance callbacks were given (Apache's console tells neither).
    """

    def __init__(
        self,
        kind: Kind,
        bootstrap: str,
        topic: str,
        group: str,
        *,
        session_ms: int = 20_000,
        instance: str | None = None,
    ) -> None:
        self.kind = kind
        self.instance = instance
        self.seen: list[tuple[int, int]] = []
        self.assigned: list[list[int]] = []
        self.revoked: list[list[int]] = []
        self.errors: list[str] = []
        command = _command(kind, bootstrap, topic, group, session_ms, instance)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        self._threads = [
            self._follow(self.process.stdout, self._hear),
            self._follow(self.process.stderr, self._hear_error),
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            ended = self.process.poll()
            error.add_note(f"{self.kind}, exit code {ended}: {''.join(self.errors)[-2000:]}")
        if self.process.poll() is None:
            self.kill()

    def leave(self) -> None:
        """Asks it to leave in order, and waits until its process has ended well."""
        self.process.terminate()
        code = self.process.wait(LEAVE_TIMEOUT_S)
        self._finish()
        # A JVM that a signal ended says 143 even after its hooks closed the consumer in order.
        assert code in ((0, 143) if self.kind.client == "apache-console" else (0,)), self.errors

    def kill(self) -> None:
        """Ends it without a word to the group."""
        self.process.kill()
        self.process.wait()
        self._finish()

    def _finish(self) -> None:
        for thread in self._threads:
            thread.join(LEAVE_TIMEOUT_S)

    def _follow(self, pipe: IO[str] | None, hear: object) -> threading.Thread:
        def run() -> None:
            assert pipe is not None and callable(hear)
            with pipe:
                for line in pipe:
                    hear(line)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def _hear(self, line: str) -> None:
        if self.kind.client in ("kcat", "apache-console"):
            numbers = re.findall(r"-?\d+", line)
            self.seen.append((int(numbers[0]), int(numbers[1])))
            return
        event = json.loads(line)
        self.seen += [(p, o) for p, o in event.get("records", ())]
        self.assigned += [event[key] for key in event if key == "assigned"]
        self.revoked += [event[key] for key in event if key == "revoked"]

    def _hear_error(self, line: str) -> None:
        self.errors.append(line)
        if self.kind.client == "kcat" and " rebalanced " in line:
            what, _, partitions = line.partition("): ")[2].partition(":")
            numbers = [int(each) for each in re.findall(r"\[(\d+)\]", partitions)]
            (self.assigned if what == "assigned" else self.revoked).append(numbers)


def _command(
    kind: Kind, bootstrap: str, topic: str, group: str, session_ms: int, instance: str | None
) -> list[str]:
    common = {"session.timeout.ms": str(session_ms), "heartbeat.interval.ms": "300"}
    common |= {"auto.offset.reset": "earliest", "auto.commit.interval.ms": "100"}
    if instance is not None:
        common["group.instance.id"] = instance
    if kind.client == "kcat":
        command = ["kcat", "-b", bootstrap, "-u", "-f", "%p %o\n"]
        common["partition.assignment.strategy"] = kind.assignor
        for key, value in common.items():
            command += ["-X", f"{key}={value}"]
        return [*command, "-G", group, topic]
    if kind.client == "apache-console":
        if kind.by_consumer_protocol:
            del common["session.timeout.ms"], common["heartbeat.interval.ms"]
            common["group.protocol"] = CONSUMER_PROTOCOL
        else:
            assignor = f"org.apache.kafka.clients.consumer.{_JAVA_ASSIGNORS[kind.assignor]}"
            common |= {"group.protocol": "classic", "partition.assignment.strategy": assignor}
        options = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group]
        for key, value in common.items():
            options += ["--command-property", f"{key}={value}"]
        for item in ("print.partition=true", "print.offset=true", "print.value=false"):
            options += ["--formatter-property", item]
        return apache_kafka.java_command(
            "org.apache.kafka.tools.consumer.ConsoleConsumer", *options
        )
    options = {"bootstrap": bootstrap, "topic": topic, "group": group, "session_ms": session_ms}
    options |= {"assignor": kind.assignor, "instance": instance}
    program = Path(__file__).with_name("member_main.py")
    return [sys.executable, str(program), kind.client, json.dumps(options)]
