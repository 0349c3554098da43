"""`scripts/bench --etcd` runs: it prints all rows, each with a figure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from etcd_server import skip_without_etcd

ROOT = Path(__file__).resolve().parents[1]
RUN_S = 600.0


@pytest.mark.thorough
def test_it_measures_one_member_and_three_with_small_and_large_appends(tmp_path: Path) -> None:
    skip_without_etcd()
    folders = (ROOT / "scripts", ROOT / "tests", ROOT / "scripts" / "path")
    words = ("--rounds", "1", "--appends", "3", "--dir", str(tmp_path))
    ran = subprocess.run(
        [sys.executable, "-m", "benchmark.etcd_appends", *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    title, *lines = ran.stdout.splitlines()
    assert title.split("  ") == ["etcd members", "events an append", "appends a second"]
    rows = [tuple(map(int, line.split())) for line in lines]
    assert [row[:2] for row in rows] == [(1, 1), (1, 100), (3, 1), (3, 100)]
    assert all(rate > 0 for _, _, rate in rows)
    assert not list(tmp_path.iterdir()), "etcd's data is removed"
