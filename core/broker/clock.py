"""Time, as an argument: the wall clock for timestamps, trio's clock for waiting."""

import time
from typing import Protocol

import trio


class Clock(Protocol):
    """The broker's source of time."""

    def now_ms(self) -> int:
        """The time of day, in ms since 1970."""
        ...

    def time(self) -> float:
        """Seconds of trio's clock, for deadlines."""
        ...


class SystemClock:
    """The machine's time."""

    def now_ms(self) -> int:
        """The time of day, in ms since 1970."""
        return time.time_ns() // 1_000_000

    def time(self) -> float:
        """Seconds of trio's clock."""
        return trio.current_time()


class ShiftedClock:
    """Another clock whose time of day can be wrong, for tests. Deadlines stay as they are."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.shift_ms = 0
        """How far the time of day is ahead."""

    def now_ms(self) -> int:
        """The other clock's time of day, shifted."""
        return self._clock.now_ms() + self.shift_ms

    def time(self) -> float:
        """Seconds of trio's clock."""
        return self._clock.time()
