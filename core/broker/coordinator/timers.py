"""The timers of all coordinators of one kind: many are set, and most are set again before they run
out.

A session's timer moves with every heartbeat. So moving one later costs a dictionary's write: the
heap keeps the old entry, and when that comes up, the timer's true time is looked at and the entry
goes back in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

import trio

Owner = TypeVar("Owner", bound=Hashable)


class Timers(Generic[Owner]):
    """Timers by (owner, key); times are seconds of trio's clock."""

    def __init__(self) -> None:
        self._at: dict[Owner, dict[Hashable, float]] = {}
        self._heap: list[tuple[float, int, Owner, Hashable]] = []
        self._queued: dict[tuple[Owner, Hashable], float] = {}
        """The earliest entry of a timer in the heap."""
        self._count = count()
        self._sooner = trio.Event()

    def set(self, owner: Owner, key: Hashable, at: float) -> None:
        """Have the timer run out at `at`, whatever it was set to before."""
        self._at.setdefault(owner, {})[key] = at
        queued = self._queued.get((owner, key))
        if queued is None or at < queued:
            self._push(owner, key, at)

    def cancel(self, owner: Owner, key: Hashable) -> None:
        """Have it never run out."""
        self._at.get(owner, {}).pop(key, None)

    def has(self, owner: Owner, key: Hashable) -> bool:
        """Whether the timer is set."""
        return key in self._at.get(owner, {})

    def forget(self, owner: Owner) -> None:
        """Cancel all timers of `owner`."""
        self._at.pop(owner, None)

    def __len__(self) -> int:
        return sum(len(timers) for timers in self._at.values())

    async def run(self, fire: Callable[[Owner, Hashable], None]) -> None:
        """Call `fire(owner, key)` for each timer that runs out, until cancelled."""
        while True:
            if not self._heap or self._heap[0][0] > trio.current_time():
                self._sooner = trio.Event()
                with trio.CancelScope(deadline=self._heap[0][0] if self._heap else float("inf")):
                    await self._sooner.wait()
                continue
            at, _, owner, key = heappop(self._heap)
            if self._queued.get((owner, key)) != at:
                continue
            del self._queued[owner, key]
            timers = self._at.get(owner)
            due = timers.get(key) if timers is not None else None
            if due is None or timers is None:
                continue
            if due > at:
                self._push(owner, key, due)
                continue
            del timers[key]
            fire(owner, key)
            await trio.lowlevel.checkpoint()

    def _push(self, owner: Owner, key: Hashable, at: float) -> None:
        self._queued[owner, key] = at
        heappush(self._heap, (at, next(self._count), owner, key))
        if self._heap[0][0] == at:
            self._sooner.set()
