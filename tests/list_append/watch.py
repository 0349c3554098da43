"""A run that makes no progress is ended, and reports where its threads are.

A call into librdkafka that keeps the interpreter's lock stops every thread of a run, a watchdog
among them. So the run is a process of its own (`watched`), which writes to a pipe whenever it gets
on (`Pulse`). After a minute of silence a signal has its threads dumped, for which no lock is
needed, and it is killed, with the nodes and clients that it started.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

QUIET_S = 60.0
"""How long a run may make no progress."""
LOOK_S = 1.0
DUMP_S = 5.0
"""How long the dump may take."""
PIPE = "PK_CHECK_PULSE"
"""Names the pipe in the run's environment."""
DUMP = signal.SIGUSR1
STOPPED = 2


def watched(command: Sequence[str], quiet_s: float = QUIET_S) -> int:
    """Run `command` in a session of its own; its exit code, or `STOPPED` if it stood still for
    `quiet_s`."""
    read, write = os.pipe()
    run = subprocess.Popen(
        command,
        env=os.environ | {PIPE: str(write)},
        pass_fds=[write],
        start_new_session=True,
    )
    os.close(write)

    def stop(number: int, _: FrameType | None) -> None:
        run.send_signal(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while _hears(read, quiet_s):
            pass
        if run.poll() is None and not _ends(run):
            message = f"The run makes no progress for {quiet_s:.0f} s. Its threads:"
            print(message, file=sys.stderr, flush=True)
            run.send_signal(DUMP)
            time.sleep(min(DUMP_S, quiet_s))
            return STOPPED
        return run.returncode
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)  # the nodes and clients too
        run.wait()
        os.close(read)


def _hears(pipe: int, quiet_s: float) -> bool:
    """Whether data arrives; False if the other end is closed or silent for too long."""
    ready, _, _ = select.select([pipe], [], [], quiet_s)
    return bool(ready and os.read(pipe, 4096))


def _ends(run: subprocess.Popen[bytes]) -> bool:
    """Whether it closed the pipe because it ends."""
    try:
        run.wait(LOOK_S)
    except subprocess.TimeoutExpired:
        return False
    return True


class Pulse:
    """Tells who watches this run that it gets on."""

    def __init__(self, progress: Callable[[], object]) -> None:
        """`progress` returns a value that changes when the run makes progress. Without a watcher,
        nothing is reported."""
        self._progress = progress
        self._bounded = 0
        pipe = os.environ.pop(PIPE, None)
        if pipe is None:
            return
        self._pipe = int(pipe)
        os.set_inheritable(self._pipe, False)
        faulthandler.register(DUMP, all_threads=True)
        threading.Thread(target=self._beat, name="pulse", daemon=True).start()

    @contextlib.contextmanager
    def bounded(self) -> Iterator[None]:
        """Within it the run waits for something that has a limit of its own."""
        self._bounded += 1
        try:
            yield
        finally:
            self._bounded -= 1

    def _beat(self) -> None:
        before: object = None
        while True:
            now = self._progress()
            if self._bounded or now != before:
                before = now
                with contextlib.suppress(BrokenPipeError):
                    os.write(self._pipe, b".")
            time.sleep(LOOK_S)
