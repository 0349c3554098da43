"""How long the event loop waits while a thread computes.

The loop gives the interpreter away with each system call, and gets it back when the thread that
took it has had its turn: 5 ms by Python's default. Compaction, the conversion of records, snapshots
of the metadata compute in such threads. While one does, a request takes half as long on average as
with that default.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

TURN_S: Final = 0.0001


@contextmanager
def short_switches() -> Generator[None]:
    """Within it a thread that computes has turns of `TURN_S`."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
