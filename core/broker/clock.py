"""The clocks of a broker: the wall clock for timestamps, trio's clock for deadlines."""

import time
from typing import Protocol

import trio


class Clock(Protocol):
    """The broker's source of time."""

    def now_ms(self) -> int:
        """Return the wall-clock time in ms since 1970."""
        ...

    def time(self) -> float:
        """Return the time of trio's clock in seconds, for deadlines."""
        ...


class SystemClock:
    """The system's clocks."""

    def now_ms(self) -> int:
        """Return the wall-clock time in ms since 1970."""
        return time.time_ns() // 1_000_000

    def time(self) -> float:
        """Return the time of trio's clock in seconds."""
        return trio.current_time()


class ShiftedClock:
    """Another clock whose wall-clock time is shifted, for tests. Deadlines are not affected."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.shift_ms = 0
        """How far the wall clock is ahead, in ms."""

    def now_ms(self) -> int:
        """Return the other clock's wall-clock time, shifted."""
        return self._clock.now_ms() + self.shift_ms

    def time(self) -> float:
        """Return the time of trio's clock in seconds."""
        return self._clock.time()
