"""Reads that must not wait for the disk, such as those on the event loop."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager


class WouldWait(Exception):
    """A read that must not wait would have to (see `Patience`). Not an OSError, since the disk
    works."""


class Patience(threading.local):
    """Whether reads of this thread may wait for the disk. The event loop reads only from the page
    cache and uses a thread for the rest: on the loop, `pread` raises WouldWait instead of
    waiting."""

    spent = False


patience = Patience()


@contextmanager
def at_once() -> Generator[None]:
    """Inside this context, reads of this thread raise WouldWait instead of waiting."""
    before, patience.spent = patience.spent, True
    try:
        yield
    finally:
        patience.spent = before
