"""A driver's process with all that it starts, and its death."""

from __future__ import annotations

import os
import random
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


def family(pid: int) -> list[int]:
    """A process and all that descend from it, parents first (Linux)."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                after = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(after[1]), []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += parents.get(each, [])
    return found


def command_line(pid: int) -> str:
    """The words of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def send(pid: int, number: int) -> bool:
    """Whether the process was there to get the signal."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


class Driver:
    """A driver process."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                env=environ,
            )

    def wait_for(self, word: str, timeout: float) -> bool:
        """Whether a line that begins with `word` comes before the process ends."""
        deadline = time.monotonic() + timeout
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while selector.select(max(deadline - time.monotonic(), 0)):
                line = self._process.stdout.readline()
                if not line or line.decode().startswith(word):
                    return bool(line)
        return False

    def kill(self) -> None:
        """Kills it with everything that it started."""
        stopped: list[int] = []
        while new := [pid for pid in family(self._process.pid) if pid not in stopped]:
            for pid in new:  # a stopped process starts no other
                send(pid, signal.SIGSTOP)
            stopped += new
        for pid in stopped:
            send(pid, signal.SIGKILL)
        self._process.wait()

    def kill_one(self, *words: str) -> bool:
        """Kills one of the processes below the driver whose command line has all of `words`; False
        if there is none."""
        found = [
            pid
            for pid in family(self._process.pid)[1:]
            if all(word in command_line(pid) for word in words)
        ]
        return bool(found) and send(random.choice(found), signal.SIGKILL)

    @property
    def ended(self) -> bool:
        """Whether it is dead, by its own hand."""
        return self._process.poll() is not None

    def ends(self, timeout: float) -> bool:
        """Whether it ends with 0."""
        return self._process.wait(timeout) == 0

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()
