"""An export's run that is killed at any step of its end: the next one finds all or nothing of it,
once, in every form. test_export_forms.py kills runs while Spark works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("form", "least"),
    [
        ("parquet", 15),
        ("url", 6),
        ("delta", 15),
        pytest.param("iceberg", 30, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_killed_at_any_step_is_there_once_or_not_at_all(
    tmp_path: Path, form: str, least: int
) -> None:
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, str(TESTS / "killed_exports.py"), form, str(tmp_path)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= least
