"""A fixed share of scripts/spark-faults: every input record is in the output once, despite kills,
and a sink that does not deliver exactly once is detected."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from spark_faults.main import (
    KINDS,
    as_blind,
    as_connector,
    as_first_batch,
    as_publishing,
    as_toy,
    parser_of_options,
)
from spark_faults.run import TOY, Plan, Run
from spark_faults.standstill import stand_still

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")

ROOT = Path(__file__).resolve().parents[2]
OFTEN = {"before": 0.1, "after": 0.1, "in_commit": 0.1, "after_commit": 0.1}


def log(folder: Path) -> str:
    return (folder / "log").read_text()[-3000:]


@pytest.mark.parametrize(
    "page", ["CONTRIBUTING.md", "docs/spark/guarantees.md", "tests/spark_faults/main.py"]
)
def test_each_command_line_of_the_pages_is_one(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = re.findall(r"scripts/spark-faults( --[^#`\n]*)", text)
    assert lines
    for line in lines:
        parser_of_options().parse_args(line.split())


@pytest.mark.faults
def test_a_driver_without_spark_is_exact_under_kills(tmp_path: Path) -> None:
    plan = as_toy(Plan(kills=6, kinds=("driver", "driver", "leader", "coordinator"), minutes=5))
    outcome = Run(plan, tmp_path)()
    assert outcome.exact, f"{outcome}\n{log(tmp_path)}"


@pytest.mark.faults
def test_new_queries_that_are_killed_in_their_first_batch_miss_nothing(tmp_path: Path) -> None:
    plan = as_first_batch(as_toy(Plan(kills=3, kinds=(), minutes=5)))
    outcome = Run(plan, tmp_path)()
    assert outcome.exact and outcome.kills["driver"] == 3, f"{outcome}\n{log(tmp_path)}"


@pytest.mark.faults
def test_a_driver_that_does_not_look_for_the_marker_is_found_out(tmp_path: Path) -> None:
    plan = as_toy(Plan(kills=20, kinds=(), minutes=5))
    blind = replace(as_blind(plan), chances={"after_commit": 0.5, "blind": 1.0})
    outcome = Run(blind, tmp_path)()
    assert outcome.twice, f"{outcome}\n{log(tmp_path)}"


@pytest.mark.faults
def test_batches_that_executors_publish_are_exact_under_kills(tmp_path: Path) -> None:
    kinds = ("driver", "driver", "leader", "coordinator")
    plan = as_publishing(as_toy(Plan(kills=6, kinds=kinds, minutes=5)))
    outcome = Run(plan, tmp_path)()
    assert outcome.exact, f"{outcome}\n{log(tmp_path)}"


@pytest.mark.faults
def test_tasks_that_do_not_look_for_the_markers_of_files_are_found_out(tmp_path: Path) -> None:
    plan = as_publishing(as_toy(Plan(kills=20, kinds=(), minutes=5)))
    outcome = Run(as_blind(plan), tmp_path)()
    assert outcome.twice, f"{outcome}\n{log(tmp_path)}"


@pytest.mark.faults
@pytest.mark.parametrize("blind", [0.0, 1.0])
def test_files_are_published_once_though_ids_expired_before_the_batch_was_repeated(
    tmp_path: Path, blind: float
) -> None:
    plan = Plan(kills=0, kinds=(), driver=TOY, queries=1, chances={"blind": blind}, publish=True)
    outcome = stand_still(plan, tmp_path)
    assert outcome.records and bool(outcome.twice) == bool(blind), outcome
    assert outcome.exact != bool(blind), f"{outcome}\n{log(tmp_path)}"


@pytest.mark.faults
@pytest.mark.parametrize("blind", [0.0, 1.0])
def test_a_batch_is_published_once_though_ids_expired_before_it_was_repeated(
    tmp_path: Path, blind: float
) -> None:
    plan = Plan(kills=0, kinds=(), driver=TOY, queries=1, chances={"blind": blind})
    outcome = stand_still(plan, tmp_path)
    assert outcome.records and bool(outcome.twice) == bool(blind), outcome
    assert outcome.exact != bool(blind), f"{outcome}\n{log(tmp_path)}"


@pytest.mark.slow
def test_spark_is_exact_under_kills(tmp_path: Path) -> None:
    plan = Plan(kills=4, kinds=KINDS, queries=2, minutes=5, chances=OFTEN)
    outcome = Run(plan, tmp_path)()
    assert outcome.exact, f"{outcome}\n{log(tmp_path)}"


@pytest.mark.slow
def test_spark_is_exact_where_executors_publish(tmp_path: Path) -> None:
    kinds = ("driver", "executor", "executor", "coordinator")
    plan = as_publishing(Plan(kills=4, kinds=kinds, queries=2, minutes=10, executors=True))
    outcome = Run(plan, tmp_path)()
    assert outcome.exact and outcome.kills["executor"], f"{outcome}\n{log(tmp_path)}"


@pytest.mark.slow
def test_spark_is_exact_when_executors_die(tmp_path: Path) -> None:
    kinds = ("driver", "executor", "executor")
    plan = Plan(kills=4, kinds=kinds, minutes=10, chances=OFTEN, executors=True)
    outcome = Run(plan, tmp_path)()
    assert outcome.exact and outcome.kills["executor"], f"{outcome}\n{log(tmp_path)}"


@pytest.mark.slow
def test_spark_is_exact_after_a_standstill(tmp_path: Path) -> None:
    outcome = stand_still(Plan(kills=0, kinds=()), tmp_path)
    assert outcome.exact, f"{outcome}\n{log(tmp_path)}"


@pytest.mark.slow
def test_spark_without_the_marker_is_found_out(tmp_path: Path) -> None:
    outcome = Run(as_blind(Plan(kills=20, kinds=("driver",), minutes=10)), tmp_path)()
    assert outcome.twice, f"{outcome}\n{log(tmp_path)}"


@pytest.mark.slow
@pytest.mark.peer
def test_sparks_own_connector_is_found_out(tmp_path: Path) -> None:
    outcome = Run(as_connector(Plan(kills=20, kinds=(), minutes=10)), tmp_path)()
    assert outcome.twice, f"{outcome}\n{log(tmp_path)}"
