"""A Kafka Streams application in a process of its own: `StreamsApplication.java`."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from clients import apache_kafka

TIMEOUT_S = 300.0
SOURCE = Path(__file__).with_name("StreamsApplication.java")


class Application:
    """Runs for the length of a `with` block, unless it is killed before."""

    def __init__(self, topology: str, prefix: str, configs: Iterable[str]) -> None:
        """`prefix` begins the names of its topics; `configs` are those of StreamsConfig, as
        key=value."""
        command = apache_kafka.java_command(
            str(SOURCE),
            topology,
            prefix,
            *configs,
            more_jars=[apache_kafka.streams_jars()],
        )
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: list[str] = []
        self._said = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        """The application's output so far."""
        with self._said:
            return "\n".join(self._lines)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._said:
                self._lines.append(line.rstrip())
                self._said.notify_all()
        with self._said:
            self._ended = True
            self._said.notify_all()

    def until(self, line: str) -> None:
        """Until it says `line`."""
        with self._said:
            said = self._said.wait_for(
                lambda: line in self._lines or self._ended, timeout=TIMEOUT_S
            )
        assert said and line in self._lines, self.text[-5000:]

    def kill(self) -> None:
        """End it as a power cut would."""
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Have it leave its group and end. Raises AssertionError if it had failed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.until("CLOSED")
        self._process.wait(TIMEOUT_S)
        assert "FAILED" not in self.text, self.text[-5000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.kill()
        self._reader.join(TIMEOUT_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()
