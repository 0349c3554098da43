"""Code that a run of `scripts/check-transactions` puts into its brokers: Python imports this file
as each of them starts.

With PK_CHECK_CLOCK the clock of the machine, as the broker sees it, is ahead by the milliseconds in
that file: a test cannot step the real clock. With PK_CHECK_PLANTED the broker has one of the bugs
of tests/sim/planted.py.
"""

import os
import time
from collections.abc import Callable


def _step_clock(path: str) -> None:
    """Have `time.time` and `time.time_ns` add what the file says, looked up ten times a second at
    most."""
    real_time, real_time_ns, monotonic = time.time, time.time_ns, time.monotonic
    known = [0, float("-inf")]

    def ahead_ms() -> int:
        if monotonic() - known[1] > 0.1:
            known[1] = monotonic()
            try:
                with open(path, encoding="ascii") as file:
                    known[0] = int(file.read() or 0)
            except (OSError, ValueError):
                known[0] = 0
        return int(known[0])

    stepped: Callable[[], float] = lambda: real_time() + ahead_ms() / 1000
    stepped_ns: Callable[[], int] = lambda: real_time_ns() + ahead_ms() * 1_000_000
    time.time, time.time_ns = stepped, stepped_ns


if _clock := os.environ.get("PK_CHECK_CLOCK"):
    _step_clock(_clock)
if _bug := os.environ.get("PK_CHECK_PLANTED"):
    from sim.planted import PLANTED

    _plant = PLANTED[_bug]()
    _plant.__enter__()
