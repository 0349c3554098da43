"""Runs the brokers that are measured, and reads their CPU and memory from the kernel (Linux)."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from clients.apache_kafka import ApacheKafka, brokers_alive, java_command
from clients.pk_broker import PkBroker, pk_command, pk_environment

TICKS = os.sysconf("SC_CLK_TCK")
# Kafka's own start scripts give the broker a gigabyte and its tools a quarter of one.
SERVER_HEAP = "1G"
TOOL_JVM = ("-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


READY_S = 30.0
# How long a broker may catch up after a pause, for example on a JVM's timers or a heartbeat.
SETTLE_S = 3.0


class System(Protocol):
    """A broker that can be started, measured and stopped."""

    name: str
    bootstrap: str

    def prepare(self) -> None:
        """Do the work that is necessary before the first start and is not measured."""
        ...

    def start(self) -> None:
        """Start the broker and return at once. `bootstrap` is known before the start."""
        ...

    def wait_until_ready(self) -> None: ...

    def close(self) -> None: ...

    def stop(self) -> None:
        """Stop the broker cleanly."""
        ...

    def kill(self) -> None:
        """Kill the broker."""
        ...

    def pid(self) -> int: ...

    def list_topics(self) -> list[str]:
        """Return the command line of the system's own tool that lists topics."""
        ...

    def console_producer(self, topic: str) -> list[str]: ...

    def console_consumer(self, topic: str, count: int) -> list[str]: ...


class Pk:
    """pk, as `pk up` with its defaults."""

    name = "pk"

    def __init__(
        self, directory: Path, port: int, properties: Mapping[str, str] | None = None
    ) -> None:
        self.broker = PkBroker(directory=directory, config=properties)
        # Known before the start, so that a client can already try to connect.
        self.bootstrap = self.broker.bootstrap = f"127.0.0.1:{port}"

    def prepare(self) -> None:
        pass

    def start(self) -> None:
        self.broker.launch()

    def wait_until_ready(self) -> None:
        self.broker.wait_until_ready()

    def close(self) -> None:
        self.broker.close()

    def stop(self) -> None:
        self.broker.stop()

    def kill(self) -> None:
        self.broker.kill()

    def pid(self) -> int:
        return self.broker.pid

    def list_topics(self) -> list[str]:
        return pk_command("topics", "list", "-b", self.bootstrap)

    def console_producer(self, topic: str) -> list[str]:
        return pk_command("console-producer", "-b", self.bootstrap, "-t", topic)

    def console_consumer(self, topic: str, count: int) -> list[str]:
        options = ["-b", self.bootstrap, "-t", topic, "--from-beginning", "-n", str(count)]
        return pk_command("console-consumer", *options)


class Apache:
    """Apache Kafka: one KRaft node, with the heap and collector of its own scripts."""

    name = "apache"

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        self.kafka = ApacheKafka(directory=directory, heap=SERVER_HEAP, properties=properties)
        self.bootstrap = self.kafka.bootstrap

    def prepare(self) -> None:
        self.kafka.format()

    def start(self) -> None:
        self.kafka.start(1, wait=False)

    def wait_until_ready(self) -> None:
        self.kafka.wait_until_ready()

    def close(self) -> None:
        self.kafka.close()

    def stop(self) -> None:
        pid = self.pid()
        os.kill(pid, signal.SIGTERM)
        while pid in self.kafka.pids:  # `stop` does not wait for thousands of logs
            time.sleep(0.1)
        self.kafka.stop(1)

    def kill(self) -> None:
        self.kafka.kill(1)

    def pid(self) -> int:
        [pid] = self.kafka.pids
        return pid

    def list_topics(self) -> list[str]:
        return self._tool("TopicCommand", "--list")

    def console_producer(self, topic: str) -> list[str]:
        return self._tool("ConsoleProducer", "--topic", topic)

    def console_consumer(self, topic: str, count: int) -> list[str]:
        options = ["--topic", topic, "--from-beginning", "--max-messages", str(count)]
        return self._tool("consumer.ConsoleConsumer", *options)

    def _tool(self, name: str, *options: str) -> list[str]:
        return java_command(
            f"org.apache.kafka.tools.{name}",
            *("--bootstrap-server", self.bootstrap, *options),
            jvm=TOOL_JVM,
        )


def environment(system: System) -> dict[str, str]:
    """Return the environment in which a system's own tools run."""
    return pk_environment() if system.name == "pk" else dict(os.environ)


@contextlib.contextmanager
def running(system: System, directory: Path) -> Iterator[System]:
    """Prepare and start a system on an empty directory; at the end, stop it and remove its data."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        system.prepare()
        system.start()
        system.wait_until_ready()
        yield system
    finally:
        system.close()
        shutil.rmtree(directory, ignore_errors=True)


def pause(system: System) -> None:
    """Pause a system until `resume`. It has stopped when this returns."""
    pid = system.pid()
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def resume(system: System) -> None:
    """Resume a paused system."""
    os.kill(system.pid(), signal.SIGCONT)


@contextlib.contextmanager
def awake(system: System) -> Iterator[System]:
    """Resume a paused system for a block, as the only one of the measured systems, and then pause
    it again.

    An idle JVM still compiles and runs its timers, for milliseconds at a time. On two cores that
    would determine the tail of the other system's latencies, while an idle pk costs Apache Kafka
    next to nothing.
    """
    resume(system)
    try:
        time.sleep(SETTLE_S)
        host, _, port = system.bootstrap.rpartition(":")
        deadline = time.monotonic() + READY_S
        while brokers_alive(host, int(port)) != 1:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{system.name} does not answer after a pause")
            time.sleep(0.1)
        yield system
    finally:
        pause(system)


def cpu_seconds(pid: int) -> float:
    """Return the user plus system time so far of a process and all its descendants, including
    children that have ended."""
    children: dict[int, list[int]] = {}
    times: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The second field is the program's name in parentheses, which may contain any
            # character.
            fields = entry.joinpath("stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process ended meanwhile
        children.setdefault(int(fields[1]), []).append(int(entry.name))
        times[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS
    total, queue = 0.0, [pid]
    while queue:
        each = queue.pop()
        total += times.get(each, 0.0)
        queue += children.get(each, [])
    return total


def rss_mb(pid: int) -> float:
    """Return the resident memory now, in megabytes. For the peak, see `rss_peak_mb`."""
    return _status_mb(pid, "VmRSS")


def rss_peak_mb(pid: int) -> float:
    """Return the peak of the resident memory of the process, in megabytes."""
    return _status_mb(pid, "VmHWM")


def _status_mb(pid: int, key: str) -> float:
    found = re.search(rf"{key}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def touch_memory(megabytes: int) -> None:
    """Make the machine provide the memory that a measurement will fill with files.

    A virtual machine often gets its memory from the host at the first access, and returns free
    memory. The first writer then takes seconds of system time per GB that neither broker causes.
    The next file reuses the memory of a deleted file, but not the memory of a process that has
    ended.
    """
    chunk = bytes(1_000_000)
    with tempfile.TemporaryFile() as file:
        for _ in range(megabytes):
            file.write(chunk)


def run(command: list[str], env: dict[str, str], stdin: Path | None = None) -> str:
    """Run a command to its end and return its output. Raises RuntimeError with the end of its
    output if it fails."""
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(stdin.open("rb")) if stdin else subprocess.DEVNULL
        ran = subprocess.run(command, stdin=source, capture_output=True, env=env, check=False)
    if ran.returncode:
        words = (ran.stderr + ran.stdout)[-1500:].decode(errors="replace")
        raise RuntimeError(f"{' '.join(command)[:200]}: exit code {ran.returncode}: {words}")
    return ran.stdout.decode(errors="replace")
