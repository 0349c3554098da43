"""`scripts/bench --quick` runs. This test uses only the part that needs no Apache Kafka and no
load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RUN_S = 1200.0


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="the benchmark reads /proc")
def test_the_quick_form_measures_a_start_and_writes_what_it_found(tmp_path: Path) -> None:
    folders = (ROOT / "scripts", ROOT / "tests", ROOT / "scripts" / "path")
    words = ("--quick", "--only", "start", "--without-apache")
    ran = subprocess.run(
        [sys.executable, "-m", "benchmark", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders)), "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    written = json.loads((tmp_path / "bench-results.json").read_text())
    assert written["settings"]["parts"] == ["start"]
    rows = {row["name"]: row for row in written["rows"]}
    assert set(rows) == {"start to first acknowledged record", "memory at start"}
    for row in rows.values():
        # The number of measurements must be right; their values depend on the machine.
        assert len(row["values"]["pk"]) == written["settings"]["rounds"]
        assert sorted(row["values"]["pk"])[len(row["values"]["pk"]) // 2] == row["pk"] > 0
        assert row["apache"] is None
        assert row["name"] in ran.stdout
