"""The timers of all coordinators of one kind. There are many, and most are set again before they
expire.

Every heartbeat moves a session's timer. Therefore moving a timer to a later time only changes a
dictionary. The heap keeps the old entry; when that entry is due, it is replaced with one for the
timer's current time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

import trio

SPARE_ENTRIES: Final = 64
"""The number by which stale entries of the heap may exceed the timers."""

Owner = TypeVar("Owner", bound=Hashable)


class Timers(Generic[Owner]):
    """Timers by (owner, key); times are seconds of trio's clock."""

    def __init__(self) -> None:
        self._at: dict[Owner, dict[Hashable, float]] = {}
        self._set = 0
        """The number of timers."""
        self._heap: list[tuple[float, int, Owner, Hashable]] = []
        self._queued: dict[tuple[Owner, Hashable], float] = {}
        """The earliest entry of each timer in the heap."""
        self._count = count()
        self._sooner = trio.Event()

    def set(self, owner: Owner, key: Hashable, at: float) -> None:
        """Set the timer to expire at `at`, which replaces its previous time."""
        timers = self._at.setdefault(owner, {})
        if key not in timers:
            self._set += 1
        timers[key] = at
        queued = self._queued.get((owner, key))
        if queued is None or at < queued:
            self._push(owner, key, at)

    def cancel(self, owner: Owner, key: Hashable) -> None:
        """Cancel the timer, if it is set."""
        if self._at.get(owner, {}).pop(key, None) is not None:
            self._set -= 1
            self._sweep()

    def has(self, owner: Owner, key: Hashable) -> bool:
        """Return whether the timer is set."""
        return key in self._at.get(owner, {})

    def forget(self, owner: Owner) -> None:
        """Cancel all timers of `owner`."""
        self._set -= len(self._at.pop(owner, ()))
        self._sweep()

    def __len__(self) -> int:
        return self._set

    async def run(self, fire: Callable[[Owner, Hashable], None]) -> None:
        """Call `fire(owner, key)` for each timer that expires, until cancelled."""
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
            self._set -= 1
            fire(owner, key)
            await trio.lowlevel.checkpoint()

    def _push(self, owner: Owner, key: Hashable, at: float) -> None:
        self._queued[owner, key] = at
        heappush(self._heap, (at, next(self._count), owner, key))
        if self._heap[0][0] == at:
            self._sooner.set()
        self._sweep()

    def _sweep(self) -> None:
        """Rebuild the heap if most of its entries are stale."""
        if len(self._heap) <= 2 * self._set + SPARE_ENTRIES:
            return
        self._queued = {
            (owner, key): at for owner, timers in self._at.items() for key, at in timers.items()
        }
        self._heap = [
            (at, next(self._count), owner, key) for (owner, key), at in self._queued.items()
        ]
        heapify(self._heap)
