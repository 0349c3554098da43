"""Non-blocking reads, which do not wait for the disk: the event loop uses them."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager


class WouldBlock(Exception):
    """A non-blocking read would have to wait for the disk. Not an OSError, since the disk works."""


class Reads(threading.local):
    """Whether reads of the current thread may wait for the disk. The event loop reads only from the
    page cache and uses a thread for everything else: in a non-blocking read, `pread` raises
    WouldBlock instead of waiting."""

    non_blocking = False


reads = Reads()


@contextmanager
def non_blocking() -> Generator[None]:
    """A context in which reads of this thread raise WouldBlock instead of waiting for the disk."""
    before, reads.non_blocking = reads.non_blocking, True
    try:
        yield
    finally:
        reads.non_blocking = before
