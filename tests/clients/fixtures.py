"""A pytest plugin: the broker a client test talks to, once pk's own and once Apache Kafka.

`kafka` is the fixture. A test that uses it runs against `pk up` in the everyday run, and against a real
Apache Kafka too (mark `peer`) where java and mvn are. Each test worker has a pk broker of its own; the
one Apache Kafka is shared by all workers of a run, since a second JVM would cost the two cores more
than it gains.

How the one is shared: the process that owns the run (the only one, or the controller of pytest-xdist)
makes a folder with a named pipe and holds the pipe open for writing. The first worker that needs the
peer starts `apache_kafka.py --until-eof-of PIPE` under a lock and leaves its address in the folder.
When the owner closes the pipe, or dies in whatever way, the peer reads its end and stops.

A peer that cannot be started is an error, never a skip; a skip is for a machine without java or mvn.
The last lines of a run say how many tests met the peer, for whoever runs this unattended.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from clients import apache_kafka
from clients.pk_broker import PkBroker

# Both brokers get these, so that a test of a dead group member need not wait six seconds, and retention comes upon no
# records of long ago in the middle of a test.
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "log.retention.check.interval.ms": "86400000",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Kafka:
    """A broker under test. `kind` is "pk" or "apache"; `log_dir` is where its partitions lie."""

    kind: str
    bootstrap: str
    log_dir: Path

    @property
    def host(self) -> str:
        return self.bootstrap.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])


class PeerHolder:
    """The run's one Apache Kafka, as its owner or one of its users sees it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writing: int | None = None

    @property
    def pipe(self) -> Path:
        return self.folder / "alive"

    def own(self) -> None:
        """Makes the pipe whose end is the peer's end."""
        os.mkfifo(self.pipe)
        self._writing = os.open(self.pipe, os.O_RDWR)

    def address(self) -> tuple[str, Path]:
        """Bootstrap address and log directory of the peer, which is started if no worker has yet."""
        state = self.folder / "address"
        with apache_kafka.locked(self.folder / "starting"):
            if not state.exists():
                state.write_text(self._start())
        bootstrap, _, directory = state.read_text().partition("\n")
        return bootstrap, Path(directory)

    def _start(self) -> str:
        directory = self.folder / "cluster"
        command = [sys.executable, apache_kafka.__file__, "--until-eof-of", str(self.pipe)]
        command += ["--directory", str(directory)]
        for key, value in SETTINGS.items():
            command += ["--property", f"{key}={value}"]
        with (self.folder / "holder.log").open("wb") as log:
            holder = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the run; the peer ends with the pipe
            )
        assert holder.stdout is not None
        bootstrap = holder.stdout.readline().strip()
        if not bootstrap:
            holder.wait()
            words = (self.folder / "holder.log").read_text(errors="replace")
            raise apache_kafka.ApacheKafkaError(f"Apache Kafka did not start: {words[-3000:]}")
        (self.folder / "pid").write_text(str(holder.pid))
        return f"{bootstrap}\n{directory / 'node-1' / 'data'}"

    def end(self) -> None:
        """Closes the pipe, waits until the peer is gone, removes the folder."""
        if self._writing is not None:
            os.close(self._writing)
        if (self.folder / "address").exists():
            with apache_kafka.locked(self.folder / "cluster" / "running"):
                pass
        shutil.rmtree(self.folder, ignore_errors=True)


_HOLDER = pytest.StashKey[PeerHolder]()
_FRESH = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    given = getattr(config, "workerinput", None)
    if given is not None:
        config.stash[_HOLDER] = PeerHolder(Path(given["pk_peer_folder"]))
        return
    holder = PeerHolder(Path(tempfile.mkdtemp(prefix="pk-peer-")))
    holder.own()
    config.stash[_HOLDER] = holder


@pytest.hookimpl(optionalhook=True)  # known to pytest only where pytest-xdist is
def pytest_configure_node(node: Any) -> None:
    node.workerinput["pk_peer_folder"] = str(node.config.stash[_HOLDER].folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[_HOLDER].end()


@pytest.fixture(scope="session")
def pk_kafka() -> Iterator[Kafka]:
    """pk's broker; at the end it must leave with 0 on SIGTERM and have logged no traceback."""
    with PkBroker(config=SETTINGS) as broker:
        assert broker.directory is not None
        yield Kafka("pk", broker.bootstrap, broker.directory)
        code = broker.stop()
        assert "Traceback" not in broker.log_text, broker.log_text[-5000:]
        assert code == 0, broker.log_text[-5000:]


@pytest.fixture(scope="session")
def apache(request: pytest.FixtureRequest) -> Kafka:
    """The run's Apache Kafka; a test that asks for it by this name carries the mark `peer`."""
    reason = apache_kafka.available()
    if reason is not None:
        pytest.skip(f"Apache Kafka cannot run here: {reason}")
    return Kafka("apache", *request.config.stash[_HOLDER].address())


@pytest.fixture(scope="session", params=["pk", pytest.param("apache", marks=pytest.mark.peer)])
def kafka(request: pytest.FixtureRequest) -> Kafka:
    """The broker under test: pk, then (mark `peer`) Apache Kafka."""
    return request.getfixturevalue("pk_kafka" if request.param == "pk" else "apache")


@pytest.fixture(scope="session")
def alone(request: pytest.FixtureRequest) -> Callable[[], AbstractContextManager[None]]:
    """`with alone():` is for who sets, removes or compares what is set for the whole of the shared brokers, such as throttles
    or the brokers' own configs: no other worker of the run does so meanwhile."""
    holder = request.config.stash[_HOLDER]
    return lambda: apache_kafka.locked(holder.folder / "alone")


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Makes names for topics and groups that no other test of any worker uses."""
    return fresh_name


def fresh_name(prefix: str) -> str:
    """A name for a topic or group that nobody else uses."""
    return f"{prefix}-{os.getpid()}-{next(_FRESH)}"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Says how many tests needed Apache Kafka's jars or broker, and how many of those were skipped."""
    counts = {
        outcome: sum("peer" in report.keywords for report in reports if _is_outcome(report))
        for outcome, reports in terminalreporter.stats.items()
        if outcome in ("passed", "failed", "error", "skipped")
    }
    ran = counts.get("passed", 0) + counts.get("failed", 0) + counts.get("error", 0)
    skipped = counts.get("skipped", 0)
    if ran or skipped:
        reason = apache_kafka.available()
        words = f" ({reason})" if skipped and reason else ""
        terminalreporter.write_line(f"peer tests: {ran} ran, {skipped} skipped{words}")


def _is_outcome(report: object) -> bool:
    return isinstance(report, pytest.TestReport) and (report.when == "call" or not report.passed)
