"""A pytest plugin: the broker a client test talks to, once pk's own and once Apache Kafka.

`kafka` is the fixture. A test that uses it runs against `pk up` in the everyday run, and against a
real Apache Kafka too (mark `peer`) where java and mvn are. Each test worker has a broker of its own
of either kind: one JVM for all of a run would be cheaper, but then another worker's topics come and
go between two reads of one test.

A peer that cannot be started is an error, never a skip; a skip is for a machine without java or
mvn. The last lines of a run say how many tests met the peer, for unattended runs.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clients import apache_kafka
from clients.pk_broker import PkBroker

# Both brokers get these, so that a test of a dead group member need not wait six seconds, nor one
# of a consumer group for a heartbeat every five, and retention comes upon no records of long ago in
# the middle of a test.
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.min.session.timeout.ms": "1000",
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.min.session.timeout.ms": "1000",
    "log.retention.check.interval.ms": "86400000",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Kafka:
    """A broker under test. `kind` is "pk" or "apache"; `log_dir` is the directory of its
    partitions."""

    kind: str
    bootstrap: str
    log_dir: Path

    @property
    def host(self) -> str:
        return self.bootstrap.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])


_FRESH = itertools.count(1)
WORKER = f"{os.getpid() % 100_000:05}"
"""Distinguishes the test workers of one run; its length does not depend on the process id."""


@pytest.fixture(scope="session")
def pk_kafka() -> Iterator[Kafka]:
    """pk's broker; at the end it must leave with 0 on SIGTERM and have logged no traceback."""
    # The answers about its configuration are compared with those of Apache Kafka.
    with PkBroker(config=apache_kafka.TEST_SERVER | SETTINGS) as broker:
        assert broker.directory is not None
        yield Kafka("pk", broker.bootstrap, broker.directory)
        code = broker.stop()
        assert "Traceback" not in broker.log_text, broker.log_text[-5000:]
        assert code == 0, broker.log_text[-5000:]


@pytest.fixture(scope="session")
def apache() -> Iterator[Kafka]:
    """The worker's Apache Kafka; a test that asks for it by this name carries the mark `peer`."""
    reason = apache_kafka.available()
    if reason is not None:
        pytest.skip(f"Apache Kafka cannot run here: {reason}")
    with apache_kafka.ApacheKafka(properties=SETTINGS) as peer:
        yield Kafka("apache", peer.bootstrap, peer.log_dir(1))


@pytest.fixture(scope="session", params=["pk", pytest.param("apache", marks=pytest.mark.peer)])
def kafka(request: pytest.FixtureRequest) -> Kafka:
    """The broker under test: pk, then (mark `peer`) Apache Kafka."""
    return request.getfixturevalue("pk_kafka" if request.param == "pk" else "apache")


clients_of_others = pytest.mark.parametrize(
    "kafka",
    ["pk", pytest.param("apache", marks=[pytest.mark.peer, pytest.mark.slow])],
    indirect=True,
)
"""For tests that run no code of pk on Apache Kafka. There they only check the test itself."""


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Makes names for topics and groups that no other test of any worker uses."""
    return fresh_name


def fresh_name(prefix: str) -> str:
    """A name for a topic or group that no other test uses.

    Those of one prefix are equally long and sort as they were made, regardless of how many tests
    ran before, because line wrapping and sorting must not depend on the machine.
    """
    return f"{prefix}-{WORKER}-{next(_FRESH):04}"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Says how many tests needed Apache Kafka's jars or broker, and how many of those were
    skipped."""
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
