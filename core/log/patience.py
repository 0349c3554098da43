"""Reads that must not wait for the disk, such as those of the event loop."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager


class WouldWait(Exception):
    """A read that must not wait would have to (see `Patience`). No OSError: the disk is well."""


class Patience(threading.local):
    """Whether reads of this thread may wait for the disk. The event loop asks for what the page
    cache has and sends a thread for the rest: `pread` then raises WouldWait."""

    spent = False


patience = Patience()


@contextmanager
def at_once() -> Generator[None]:
    """Within it reads of this thread raise WouldWait rather than wait."""
    before, patience.spent = patience.spent, True
    try:
        yield
    finally:
        patience.spent = before
