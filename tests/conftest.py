"""Fixtures for every test: the brokers that client tests run against. A test is skipped if the
machine lacks a program that it needs. With PK_NO_SKIPS, which .ci/run sets on a machine that has
every program, a skip is a failure.

Hypothesis generates the same examples in every run, so that a passing run keeps passing. With
PK_EXPLORE set, the examples differ in each run; add a test for each failure that this finds. The
everyday run takes a share of the examples (`effort`), and leaves out the tests marked `thorough`.
No example has a deadline, because a busy machine may need any time.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from effort import THOROUGH, examples
from hypothesis import settings

pytest_plugins = [
    "leftovers",
    "clients.fixtures",
    "etcd_server",
    "zookeeper_server",
    "voting_stores",
    "group_parts",
    "scheduling",
]

NO_SKIPS = "PK_NO_SKIPS"

# A run that a script started in the background ignores Ctrl-C, and processes inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["PK_COMPLETION_REFRESH"] = "never"  # no processes that outlive their test

# Local times are the same on every machine and in every process that a test starts. They determine
# the day of a record, and the half hours of some time zones.
os.environ["TZ"] = "UTC"
time.tzset()

settings.register_profile("explore", deadline=None)
settings.register_profile(
    "fixed", deadline=None, derandomize=True, database=None, max_examples=examples(100)
)
settings.load_profile("explore" if os.environ.get("PK_EXPLORE") else "fixed")


gc.disable()  # until collection ends: nothing that it creates is garbage


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


_MODULE_MARKS = re.compile(r"^pytestmark = (\[.*?^\]|[^\n]*)", re.MULTILINE | re.DOTALL)
_EXCLUDED = re.compile(r"not (\w+)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip a file if none of its tests would run, because every worker imports every file, and
    tests against peers import much. A file that the command line names is collected."""
    terms = [_EXCLUDED.fullmatch(term) for term in config.option.markexpr.split(" and ")]
    excluded = {term[1] for term in terms if term is not None}
    if not excluded or not collection_path.name.startswith("test_"):
        return None
    marks = _MODULE_MARKS.search(collection_path.read_text())
    if marks is None or excluded.isdisjoint(re.findall(r"pytest\.mark\.(\w+)", marks[1])):
        return None
    folder = config.invocation_params.dir
    named = {(folder / arg.partition("::")[0]).resolve() for arg in config.args}
    return None if collection_path in named else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of the everyday run the tests marked `thorough`, unless a test is named."""
    if THOROUGH or any("::" in arg for arg in config.args):
        return
    left_out = [item for item in items if item.get_closest_marker("thorough")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]


def _refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.outcome == "skipped" and os.environ.get(NO_SKIPS) and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{NO_SKIPS} is set, and this was skipped: {why}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse(report)
    return report
