"""A clock for tests that a mock clock moves."""

from __future__ import annotations

import trio


class TrioClock:
    """A time of day that follows trio's clock, so that a mock clock moves both."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = start_ms

    def now_ms(self) -> int:
        """`start_ms` plus the time of trio's clock."""
        return self._start_ms + int(trio.current_time() * 1000)

    def time(self) -> float:
        """Seconds of trio's clock."""
        return trio.current_time()
