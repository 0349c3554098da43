"""A pytest plugin: what a run of tests started does not outlive it, however the run ends.

Fixtures end what they start. But a run that is killed, or interrupted twice, has no time for them,
and brokers in process groups of their own would stay. So all that a run starts inherits a variable
that names the run, and a watcher, whose standard input is a pipe from the run, kills all that still
have it when the pipe ends. Linux only, where /proc shows the variables of a process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

NAME = "PK_TEST_RUN"
PROC = Path("/proc")

_watchers: list[IO[bytes]] = []
"""The pipes, which must stay open until this process ends."""


def pytest_configure() -> None:
    """Begins to watch, once a run: the workers of xdist inherit the variable."""
    if NAME in os.environ or not (PROC / "self" / "environ").exists():
        return
    run = uuid.uuid4().hex
    watcher = subprocess.Popen(
        [sys.executable, "-I", __file__, run],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.environ[NAME] = run
    assert watcher.stdin is not None
    _watchers.append(watcher.stdin)


def left(run: str) -> Iterator[int]:
    """The processes of a run."""
    wanted = f"{NAME}={run}".encode()
    for path in PROC.glob("[0-9]*/environ"):
        try:
            if wanted in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)
        except OSError:
            pass  # it ended, or is another user's


def main(run: str) -> None:
    """Waits for the end of the run. Then kills the processes that it left, and those that they
    start."""
    sys.stdin.buffer.read()
    while found := list(left(run)):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1])
