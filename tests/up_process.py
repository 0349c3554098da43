"""`pk up` as a separate process, and its output."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from pathlib import Path

from clients.pk_broker import pk_environment, start_pk

ROOT = Path(__file__).resolve().parents[1]
WAIT_S = 120


class Cluster:
    """`pk up`, with a port of the system's choice."""

    def __init__(self, *words: str) -> None:
        # The environment is that of the test, which has a state directory of its own.
        self.process = start_pk(
            *("up", "--port", "0", *words),
            env=pk_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        """Its standard error so far, by lines."""
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._more:
                self.said.append(line)
                self._more.notify_all()

    @property
    def bootstrap(self) -> str:
        return self.line.split()[-1]

    def wait_for(self, text: str) -> str:
        """The first line with `text` that it writes to standard error."""
        deadline = time.monotonic() + WAIT_S
        with self._more:
            while True:
                for line in self.said:
                    if text in line:
                        return line
                left_s = deadline - time.monotonic()
                assert left_s > 0 and self._more.wait(left_s), f"no {text!r} in {self.said}"

    def end(self, number: int = signal.SIGINT) -> int:
        """Its exit code after a signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        return code
