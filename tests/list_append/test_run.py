"""`scripts/check-transactions` on real brokers: nothing is found, and a planted bug that it can see
is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


def check(*words: str, timeout_s: float = 900) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(TESTS.parent / "scripts" / "path"), str(TESTS)))
    return subprocess.run(
        [sys.executable, "-m", "list_append.main", "--no-copiers", *words],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@pytest.mark.faults
def test_a_short_run_finds_nothing() -> None:
    done = check("--cycles", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 anomalies: none" in done.stdout
    assert re.search(r"^4 faults: ", done.stdout, re.MULTILINE)
    assert int(re.findall(r"([\d,]+) committed", done.stdout)[0].replace(",", "")) > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "kinds"),
    [
        ("lso-passes-open", "aborted read|torn transaction"),
        ("aborted-not-told", "aborted read|torn transaction"),
        ("pending-forgotten", "input processed twice|not settled"),
        ("offsets-at-once", "input not processed|not settled"),
    ],
)
def test_a_planted_bug_is_found(bug: str, kinds: str) -> None:
    done = check("--cycles", "4", "--planted", bug)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(rf"^\d+ anomalies: .*({kinds})", done.stdout, re.MULTILINE), done.stdout
