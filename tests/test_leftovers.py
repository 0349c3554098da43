"""What a run of tests started ends with it, also where no fixture could end it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import leftovers
import pytest

WAITS = """
import os, subprocess, sys


def test_waits():
    words = [sys.executable, "-c", "import signal; print(flush=True); signal.pause()"]
    with open(os.environ["READY"], "wb") as ready:
        subprocess.run(words, stdout=ready, start_new_session=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_killed_run_started_ends_too(tmp_path: Path, workers: int) -> None:
    (tmp_path / "test_waits.py").write_text(WAITS)
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "READY": str(ready)}
    environ.pop(leftovers.NAME, None)
    words = ["-m", "pytest", "-q", "-p", "leftovers", "-p", "no:cacheprovider"]
    with (
        subprocess.Popen(
            [sys.executable, *words, "-n", str(workers), str(tmp_path)],
            cwd=tmp_path,
            env=environ,
            stdout=subprocess.DEVNULL,
        ) as run,
        ready.open("rb") as started,
    ):
        assert started.read(1) == b"\n"
        run.kill()
        run.wait()
        assert started.read() == b""  # the last process that has it open has ended
