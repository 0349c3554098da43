"""A run without progress is ended and reports where it hangs, even while a call holds the GIL."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
from list_append.watch import STOPPED

TESTS = Path(__file__).resolve().parents[1]

RUN = """
import ctypes, subprocess, sys, time
from list_append.watch import Pulse
count = 0
pulse = Pulse(lambda: count)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)

def gets_on(seconds):
    global count
    for _ in range(seconds * 2):
        count += 1
        time.sleep(0.5)

def stands_still():
    time.sleep(600)

def keeps_the_lock():
    ctypes.PyDLL(None).sleep(600)

"""
ENDS = {
    "sys.exit(7)": 7,
    "gets_on(8)\nsys.exit(0)": 0,
    "with pulse.bounded():\n    time.sleep(8)\nsys.exit(0)": 0,
    "stands_still()": STOPPED,
    "gets_on(2)\nkeeps_the_lock()": STOPPED,
}


@pytest.mark.thorough
@pytest.mark.parametrize("end", ENDS)
def test_a_run_is_watched(end: str) -> None:
    watcher = (
        "import sys\nfrom list_append.watch import watched\n"
        f"sys.exit(watched([sys.executable, '-c', {RUN + end!r}], 4.0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", watcher],
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == ENDS[end], done.stderr
    if ENDS[end] == STOPPED:
        assert "The run makes no progress for 4 s. Its threads:" in done.stderr
        where = end.splitlines()[-1].removesuffix("()")
        assert f" in {where}\n" in done.stderr
        assert " in _beat\n" in done.stderr
    else:
        assert not done.stderr
    _ends(int(done.stdout))


def _ends(pid: int) -> None:
    """Wait for the end of a process that was killed: it may still be there for a moment."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return  # it ended, and init has collected it
    try:
        ended, _, _ = select.select([process], [], [], 60)
        assert ended, f"process {pid} outlives the run"
    finally:
        os.close(process)
