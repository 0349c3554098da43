"""The rows of `scripts/bench`, and their verdicts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])


def test_figures_of_the_same_name_by_two_drivers_are_two_rows() -> None:
    from benchmark.report import Results

    results = Results()
    for driver, ours in (("20,000 rows", 9.0), ("200,000 rows", 90.0)):
        row = results.row("micro-batch", "ms", driver, higher=False, goal=0.5)
        row.add("pk", ours)
        row.add("apache", 100.0)
    found = [(row.driver, row.median("pk"), row.met()) for row in results.rows.values()]
    assert found == [("20,000 rows", 9.0, True), ("200,000 rows", 90.0, False)]


def test_a_row_is_made_once() -> None:
    from benchmark.report import Results

    results = Results()
    for value in (1.0, 3.0, 2.0):
        results.row("round trip", "ms", "librdkafka", higher=False).add("pk", value)
    [row] = results.rows.values()
    assert row.median("pk") == 2.0
