"""The tasks that a broker runs in the background, and the way in which it ends its own process."""

from __future__ import annotations

import logging
from typing import Any

import trio

logger = logging.getLogger("pk.broker")


class Background:
    """The broker's background tasks. None can be started before `start`."""

    def __init__(self) -> None:
        self.failed = trio.Event()
        """Set when the broker cannot continue; `failure` has the reason."""
        self.failure = ""
        self._nursery: trio.Nursery | None = None

    def start(self, nursery: trio.Nursery) -> None:
        """Run later tasks in `nursery`."""
        self._nursery = nursery

    def start_soon(self, fn: Any, *args: Any) -> None:
        """Start a background task."""
        assert self._nursery is not None, "the broker has not started"
        self._nursery.start_soon(fn, *args)

    def fail(self, reason: str) -> None:
        """End the node, because the broker cannot continue."""
        if not self.failed.is_set():
            logger.critical("the broker is stopping: %s", reason)
            self.failure = reason
            self.failed.set()
