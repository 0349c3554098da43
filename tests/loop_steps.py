"""How much is done in one step of a task, counted in calls of functions and not in seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trio


class Steps(trio.abc.Instrument):
    """Counts the calls in each step of the tasks that began after it."""

    def __init__(self) -> None:
        self.longest = 0
        self._calls = 0
        self._others = frozenset([trio.lowlevel.current_task()])

    def _count(self, frame: Any, event: str, argument: Any) -> None:
        self._calls += event in ("call", "c_call")

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task not in self._others:
            self._calls = 0
            sys.setprofile(self._count)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task not in self._others:
            sys.setprofile(None)
            self.longest = max(self.longest, self._calls)


@contextmanager
def counted() -> Iterator[Steps]:
    """The steps that are made within the block."""
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    try:
        yield steps
    finally:
        trio.lowlevel.remove_instrument(steps)
