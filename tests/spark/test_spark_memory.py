"""`scripts/bench --spark-memory`: a driver of small batches does not grow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BATCHES = 300
LEAK_MB = 30
"""270 batches at which a hundred kilobytes stay each make this much."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_three_hundred_batches_leave_nothing_in_the_driver() -> None:
    folders = (ROOT / "scripts", ROOT / "tests", ROOT / "scripts" / "path")
    words = ["--minutes", "0", "--batches", str(BATCHES), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmark.spark_memory", *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))},
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, last = json.loads(done.stdout.splitlines()[-1])
    assert BATCHES / 10 <= first["batches"] < BATCHES <= last["batches"]
    assert last["heap"] < first["heap"] + LEAK_MB, done.stdout
    assert last["python"] < first["python"] + LEAK_MB, done.stdout
