"""SIGTERM as Ctrl-C, in a process that may ignore Ctrl-C as a script's background command does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
import trio

from pk.spark.session.interrupts import TerminatedAsInterrupted, run_trio

WAITS = """\
import trio
from pk.spark.session.interrupts import TerminatedAsInterrupted, run_trio

async def wait():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        try:
            print("waits", flush=True)
            await trio.sleep_forever()
        finally:
            print("cleans up", flush=True)

with TerminatedAsInterrupted():
    try:
        run_trio(wait)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""
DEFERS = """\
import sys
from pk.spark.session.interrupts import DeferredInterrupts, TerminatedAsInterrupted

with TerminatedAsInterrupted():
    try:
        with DeferredInterrupts():
            print("waits", flush=True)
            sys.stdin.readline()
            print("cleans up", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize("source", [WAITS, DEFERS])
def test_a_termination_waits_until_nothing_is_half_done(source: str, ignored: bool) -> None:
    """Ctrl-C is ignored in background commands of scripts: trio and pk take over no handler then,
    and a KeyboardInterrupt at SIGTERM hit trio's own code, or py4j's."""
    handler = "SIG_IGN" if ignored else "default_int_handler"
    setting = f"import signal; signal.signal(signal.SIGINT, signal.{handler})\n"
    with subprocess.Popen(
        [sys.executable, "-c", setting + source],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGTERM)
        shown, said = process.communicate("\n", timeout=60)
    assert (shown, said, process.returncode) == ("cleans up\ninterrupted\n", "", 0)


@pytest.mark.parametrize("at", ["start", "last step", "end"])
def test_a_termination_never_hits_the_code_of_trio(
    at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """trio sets a file descriptor for signals when it starts, and puts the earlier one back when it
    ends."""
    calls = {"start": 1, "end": 2}.get(at, 0)
    plain = signal.set_wakeup_fd

    def set_wakeup_fd(*given: Any, **more: Any) -> int:
        nonlocal calls
        calls -= 1
        found = plain(*given, **more)
        if calls == 0:
            signal.raise_signal(signal.SIGTERM)
        return found

    async def work() -> None:
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        if at == "last step":
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(signal, "set_wakeup_fd", set_wakeup_fd)
    with TerminatedAsInterrupted():
        with pytest.raises(KeyboardInterrupt):
            run_trio(work)
        assert calls <= 0
        run_trio(trio.lowlevel.checkpoint)
