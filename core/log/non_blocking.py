"""Non-blocking reads: those that must not wait for the disk, such as reads on the event loop."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager


class WouldBlock(Exception):
    """A non-blocking read would have to wait for the disk. Not an OSError, since the disk works."""


class Reads(threading.local):
    """How reads of this thread behave. The event loop reads only from the page cache and uses a
    thread for the rest: in a non-blocking read, `pread` raises WouldBlock instead of waiting."""

    non_blocking = False


reads = Reads()


@contextmanager
def non_blocking() -> Generator[None]:
    """Inside this context, reads of this thread raise WouldBlock instead of waiting."""
    before, reads.non_blocking = reads.non_blocking, True
    try:
        yield
    finally:
        reads.non_blocking = before
