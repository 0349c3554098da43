"""Virtual time: trio's mock clock for a run in which nothing waits for the machine.

Time stands still while any task can run, and then jumps to the next thing that is due: a deadline
of trio's, or the alarm that one task (the network) sets for itself. The alarm is no deadline, since
a cancel scope for each of a run's hundred thousand messages is dear. Nor is the machine asked for
events, beyond a look now and then for Ctrl-C: there are no sockets and no threads.
"""

from __future__ import annotations

from math import inf
from typing import Any, Final, cast

import trio
import trio.testing
from trio._core import _run

LOOKS_FOR_EVENTS_EVERY: Final = 256
"""Turns of the loop between two checks for external events, which can only be Ctrl-C."""


class VirtualClock(trio.abc.Clock):
    """The clock of one run: `trio.run(main, clock=VirtualClock())`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.alarm_at = inf
        """The time at which `sleep_until_alarm` returns; may be changed while a task sleeps in
        it."""
        self._sleeper: trio.lowlevel.Task | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """trio lets no clock jump but its own, of which it lets no one make a subclass."""
        return trio.testing.MockClock

    def start_clock(self) -> None:
        runner = cast("Any", _run.GLOBAL_RUN_CONTEXT).runner
        runner.clock_autojump_threshold = 0
        runner.io_manager = _Unasked(runner.io_manager)

    def current_time(self) -> float:
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return 0 if deadline <= self.now else 999_999_999

    def _autojump(self) -> None:
        runner = cast("Any", _run.GLOBAL_RUN_CONTEXT).runner
        due = min(runner.deadlines.next_deadline(), self.alarm_at)
        if due == inf:
            return
        self.now = max(self.now, due)
        # Other tasks due at the same time run first, so that all of their work is done when the
        # sleeper wakes.
        if not runner.deadlines.expire(self.now) and self._sleeper is not None:
            sleeper, self._sleeper = self._sleeper, None
            trio.lowlevel.reschedule(sleeper)

    async def sleep_until_alarm(self) -> None:
        """Sleep until `alarm_at`; one task at a time may."""
        assert self._sleeper is None
        self._sleeper = trio.lowlevel.current_task()

        def abort(_: Any) -> trio.lowlevel.Abort:
            self._sleeper = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)


class _Unasked:
    """The machine's events, which are asked for only now and then."""

    def __init__(self, io_manager: Any) -> None:
        self._io_manager = io_manager
        self._turns = 0

    def get_events(self, timeout: float) -> Any:
        self._turns += 1
        if self._turns % LOOKS_FOR_EVENTS_EVERY and timeout <= 0:
            return []
        return self._io_manager.get_events(timeout)

    def process_events(self, events: Any) -> None:
        if events:
            self._io_manager.process_events(events)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._io_manager, name)
