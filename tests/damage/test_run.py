"""`scripts/check-damage` on real brokers: nothing acknowledged is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.faults
def test_no_damage_to_two_of_three_brokers_loses_an_acknowledged_record() -> None:
    path = os.pathsep.join((str(TESTS.parent / "scripts" / "path"), str(TESTS)))
    done = subprocess.run(
        [sys.executable, "-m", "damage.main", "--rounds", "8", "--seed", "2"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| all | | 0 of " in done.stdout
