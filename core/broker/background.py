"""The tasks that a broker runs in the background, and its way to end itself."""

from __future__ import annotations

import logging
from typing import Any

import trio

logger = logging.getLogger("pk.broker")


class Background:
    """See the top of this file. Before `start` nothing can be run."""

    def __init__(self) -> None:
        self.failed = trio.Event()
        """Set when the broker cannot continue; `failure` says why."""
        self.failure = ""
        self._nursery: trio.Nursery | None = None

    def start(self, nursery: trio.Nursery) -> None:
        """Tasks run in `nursery` from here on."""
        self._nursery = nursery

    def start_soon(self, fn: Any, *args: Any) -> None:
        """Run a task of the broker's own."""
        assert self._nursery is not None, "the broker has not started"
        self._nursery.start_soon(fn, *args)

    def fail(self, why: str) -> None:
        """The broker cannot continue: its node must end."""
        if not self.failed.is_set():
            logger.critical("the broker is stopping: %s", why)
            self.failure = why
            self.failed.set()
