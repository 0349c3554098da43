"""Starts a real ZooKeeper: Debian's `zookeeper` package, one server on a free port of loopback.

If the package or Java is missing, tests that need ZooKeeper are skipped with that reason. With
PK_REQUIRE_ZOOKEEPER set, which .ci/run does if it could install ZooKeeper, they fail instead.

By hand: `python tests/zookeeper_server.py` starts one, prints its address, and ends it on end of
input or Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from clients.apache_kafka import free_ports

JAR = Path("/usr/share/java/zookeeper.jar")
JARS = (JAR, Path("/usr/share/java/slf4j-nop.jar"))
JVM = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dzookeeper.forceSync=no",
)
"""Nothing is synced: no test cuts the power, and thousands of writes would be slow on a disk that
others use."""
START_TIMEOUT_S = 240.0
STARTING_ANSWER_S = 1.0
"""A server that took a connection before it could serve never answers on it."""
STOP_TIMEOUT_S = 60.0


class ZooKeeperError(Exception):
    """ZooKeeper did not start; the message holds the end of its log."""


def available() -> str | None:
    """None if ZooKeeper can run here, else the reason why it cannot, in a few words."""
    if shutil.which("java") is None:
        return "java is not installed"
    if not JAR.exists():
        return "Debian's package zookeeper is not installed"
    return None


def required() -> bool:
    """Whether a missing ZooKeeper fails the run."""
    return bool(os.environ.get("PK_REQUIRE_ZOOKEEPER"))


class ZooKeeperServer:
    """One ZooKeeper server, for the length of a `with` block, or by `start` and `stop` by hand.

    It keeps its port and its data when it is started again. Sessions may be as short as two ticks,
    `tick_ms` each.
    """

    def __init__(self, *, tick_ms: int = 500) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="pk-zookeeper-")
        self.directory = Path(self._temporary.name)
        (self.port,) = free_ports(1)
        self.process: subprocess.Popen[bytes] | None = None
        settings = {
            "tickTime": tick_ms,
            "dataDir": self.directory / "data",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
        }
        lines = (f"{key}={value}\n" for key, value in settings.items())
        self.directory.joinpath("zoo.cfg").write_text("".join(lines))

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
        """host:port."""
        return f"127.0.0.1:{self.port}"

    @property
    def log_text(self) -> str:
        """The server's console output so far."""
        return (self.directory / "server.log").read_text(errors="replace")

    def start(self) -> None:
        """Starts it, and waits until it serves. Raises ZooKeeperError."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Starts its process, and returns at once."""
        classpath = os.pathsep.join(map(str, JARS))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = ["java", *JVM, "-cp", classpath, main, str(self.directory / "zoo.cfg")]
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def wait_until_ready(self) -> None:
        """Waits until it answers. Raises ZooKeeperError if it ends, or does not answer within
        START_TIMEOUT_S."""
        assert self.process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.ask("ruok", STARTING_ANSWER_S) != "imok" or "not currently serving" in self.ask(
            "srvr", STARTING_ANSWER_S
        ):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
                raise ZooKeeperError(f"ZooKeeper ended:\n{self.log_text[-3000:]}")
            if time.monotonic() > deadline:
                raise ZooKeeperError(f"ZooKeeper does not answer:\n{self.log_text[-3000:]}")

    def ask(self, command: str, timeout_s: float = 30.0) -> str:
        """The server's answer to a four-letter command, or empty if there is none."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout_s) as connection:
                connection.sendall(command.encode())
                answer = b""
                while piece := connection.recv(4096):
                    answer += piece
                return answer.decode()
        except OSError:
            return ""

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

    def close(self) -> None:
        """Kills it if it is running, and removes its folder."""
        if self.process is not None:
            self.kill()
        self._temporary.cleanup()

    def _end(self, number: int) -> None:
        process, self.process = self.process, None
        assert process is not None
        process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeperServer]:
    """A ZooKeeper that tests share. Each test uses a separate path, and leaves it running."""
    skip_without_zookeeper()
    with ZooKeeperServer() as server:
        yield server


def skip_without_zookeeper() -> None:
    """Skips the test, or fails it if ZooKeeper is required."""
    reason = available()
    if reason is not None:
        assert not required(), f"ZooKeeper cannot run here: {reason}"
        pytest.skip(f"ZooKeeper cannot run here: {reason}")


def main() -> int:
    """Runs a server until standard input ends."""
    reason = available()
    if reason is not None:
        print(f"ZooKeeper cannot run here: {reason}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ZooKeeperServer() as server, contextlib.suppress(KeyboardInterrupt):
        print(server.address, flush=True)
        while sys.stdin.buffer.read(1):
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
