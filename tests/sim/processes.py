"""A run of trio as a function of its seed, and processes inside it that can be stopped and killed.

trio shuffles the tasks that are ready; seeded, and with its sort before the shuffle, equal seeds
give equal runs. A task belongs to the simulated process in whose context it was started. While a
process is frozen (SIGSTOP), its tasks that become ready are put aside, and run when it is thawed.
Its timers expire in that time, since a machine's clock continues, and all of them fire at once
afterwards. The tasks themselves are not changed, so they cannot notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from traceback import walk_tb
from typing import Any, cast
from warnings import catch_warnings

import trio
from trio._core import _run

OWNER: ContextVar[Process | None] = ContextVar("OWNER", default=None)
"""The process that the running task belongs to."""

_reschedule = cast("Callable[..., None]", _run.Runner.reschedule)


class Process:
    """One simulated process: a node's incarnation, or a client. Its resources die with it."""

    def __init__(self, name: str, host: str, incarnation: int = 0) -> None:
        self.name = name
        self.host = host
        self.incarnation = incarnation
        self.alive = True
        self.frozen = False
        self.ran = True
        """Whether it may have done something since its `ran` was last set to False."""
        self._held: list[tuple[Any, tuple[Any, ...]]] = []
        self._calls: list[Callable[[], None]] = []

    def hold(self, task: Any, next_send: tuple[Any, ...]) -> None:
        """Keep a task that became ready until `thaw`."""
        task._abort_func = None
        self._held.append((task, next_send))

    def freeze(self) -> None:
        """SIGSTOP: no task of it runs from its next checkpoint on."""
        self.frozen = True

    def thaw(self) -> None:
        """SIGCONT: every task that became ready while frozen runs."""
        self.frozen = False
        calls, self._calls = self._calls, []
        for call in calls:
            self.soon(call)
        held, self._held = self._held, []
        self.ran = True
        for task, next_send in held:
            _reschedule(task._runner, task, *next_send)

    def soon(self, call: Callable[[], None]) -> None:
        """Have the process make a call outside of any task: now, or when it is thawed."""
        if self.frozen:
            self._calls.append(call)
        elif self.alive:
            self.ran = True
            call()

    def kill(self) -> None:
        """SIGKILL: from here on nothing it does has an effect. Its tasks are for its owner to
        cancel."""
        self.alive = False
        self.thaw()

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Process({self.name!r}, incarnation={self.incarnation})"


def _held_or_rescheduled(self: Any, task: Any, *next_send: Any) -> None:
    process = task.context.get(OWNER)
    if process is not None:
        if process.frozen:
            process.hold(task, next_send)
            return
        process.ran = True
    _reschedule(self, task, *next_send)


@contextmanager
def deterministic(seed: int) -> Iterator[None]:
    """Within it trio.run is a function of `seed`, and `Process.freeze` works."""
    state, allowed = _run._r.getstate(), _run._ALLOW_DETERMINISTIC_SCHEDULING
    _run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    _run._r.seed(seed)
    _run.Runner.reschedule = _held_or_rescheduled  # type: ignore[method-assign]
    try:
        yield
    finally:
        _run.Runner.reschedule = _reschedule  # type: ignore[method-assign]
        _run._ALLOW_DETERMINISTIC_SCHEDULING = allowed  # type: ignore[misc]
        _run._r.setstate(state)


def abandon_run(error: BaseException) -> None:
    """End the run that `error` came out of, if it has not ended: an alarm may ring in the few lines
    of trio.run around its loop, and then no other run could begin in this process."""
    for frame, _ in walk_tb(error.__traceback__):
        loop = frame.f_locals.get("gen") if frame.f_code is trio.run.__code__ else None
        if loop is not None:
            with catch_warnings(action="ignore"):  # trio tells that a run was abandoned
                loop.close()


@contextmanager
def owned_by(process: Process) -> Iterator[None]:
    """Tasks started within it belong to `process`."""
    token = OWNER.set(process)
    try:
        yield
    finally:
        OWNER.reset(token)


def child(random: Random, name: str) -> Random:
    """A source of chance of its own for `name`: what one part draws does not move the others."""
    return Random(f"{random.getrandbits(64)}/{name}")
