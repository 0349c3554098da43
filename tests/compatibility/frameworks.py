"""Frameworks, which are more than clients, each shown by tests of this project, which also run by
themselves."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypedDict
from xml.etree import ElementTree

from clients import apache_kafka, spark_connector

ROOT: Final = Path(__file__).resolve().parents[2]
FRAMEWORK_S: Final = 1800.0
Outcome = Literal["passed", "failed", "missing"]


class Framework(NamedTuple):
    """One row of the second table."""

    name: str
    title: str
    version: str
    what: str
    """The features that its tests show, for the page."""

    tests: tuple[str, ...]
    """pytest's ids; only those against pk are run."""


class Shown(TypedDict):
    """The result of one framework."""

    name: str
    title: str
    version: str
    what: str
    tests: list[str]
    outcome: Outcome
    counts: str
    """How many tests passed, failed, were skipped."""

    why: str
    """Empty if all passed."""


FRAMEWORKS: Final = (
    Framework(
        "streams",
        "Kafka Streams",
        apache_kafka.VERSION,
        "word count and windowed join, exactly once, killed and restarted, with groups of either "
        "protocol",
        ("tests/clients/test_streams.py",),
    ),
    Framework(
        "connect",
        "Kafka Connect, distributed",
        apache_kafka.VERSION,
        "two workers, file source (exactly once) and sink; a worker and a broker are killed",
        ("tests/clients/test_connect.py",),
    ),
    Framework(
        "debezium",
        "Debezium for PostgreSQL",
        apache_kafka.DEBEZIUM_VERSION,
        "in Kafka Connect, exactly once: each change of a table, in order; a worker and a broker "
        "are killed",
        ("tests/clients/test_debezium.py",),
    ),
    Framework(
        "mirror-maker",
        "MirrorMaker 2",
        apache_kafka.VERSION,
        "both ways between pk and Apache Kafka, exactly once; its node and a broker are killed",
        ("tests/clients/test_mirror_maker.py",),
    ),
    Framework(
        "mirror-offsets",
        "MirrorMaker 2, offsets of groups",
        apache_kafka.VERSION,
        "both ways, groups continue in the other cluster, miss no record and read few again",
        ("tests/clients/test_mirror_offsets.py",),
    ),
    Framework(
        "spark",
        "Spark's Kafka connector",
        spark_connector.VERSION,
        "batches and streams, read and written; a stream continues from its checkpoint",
        ("tests/clients/test_spark_connector.py",),
    ),
    Framework(
        "flink",
        "Flink and its Kafka connector",
        apache_kafka.FLINK_VERSIONS,
        "a job copies a topic, exactly once, is killed, and continues from its checkpoint",
        ("tests/clients/test_flink.py",),
    ),
)
"""The rows, in order."""


def run_framework(framework: Framework, tell: Callable[[str], None]) -> Shown:
    """Run its tests; failures are named, not raised."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider"]
        words += ["--junitxml", str(report), "-k", "not apache", *framework.tests]
        ran = subprocess.run(
            words,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=FRAMEWORK_S,
            check=False,
        )
        shown = judged(framework, report.read_text() if report.exists() else "", ran.stdout)
    tell(f"{framework.name}: {shown['outcome']}: {shown['counts']} {shown['why']}".rstrip())
    return shown


def judged(framework: Framework, report: str, output: str) -> Shown:
    """A framework's result in pytest's report (JUnit XML); `output` is used without a report."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    reasons = list[str]()
    cases = ElementTree.fromstring(report).iter("testcase") if report else []
    for case in cases:
        bad = next((e for e in case if e.tag in ("failure", "error", "skipped")), None)
        if bad is None:
            counts["passed"] += 1
        else:
            counts["skipped" if bad.tag == "skipped" else "failed"] += 1
            reasons.append(f"{case.get('name')}: {bad.get('message') or bad.tag}")
    if not report:
        reasons.append(" ".join(output.split())[-300:])
    failed = counts["failed"] or not report or not counts["passed"] + counts["skipped"]
    return _shown(
        framework,
        "failed" if failed else "passed" if counts["passed"] else "missing",
        ", ".join(f"{n} {word}" for word, n in counts.items() if n),
        " ".join("; ".join(reasons).split())[:300],
    )


def _shown(framework: Framework, outcome: Outcome, counts: str, why: str) -> Shown:
    return {
        "name": framework.name,
        "title": framework.title,
        "version": framework.version,
        "what": framework.what,
        "tests": list(framework.tests),
        "outcome": outcome,
        "counts": counts,
        "why": why,
    }
