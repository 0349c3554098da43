"""Waiting for something to move: a high watermark, a log end, a group, an image.

Kafka's purgatory is an object with callbacks: try, watch, try again, complete once. Here it is an await. A waiter looks,
registers, and sleeps until one of its keys is touched; then it looks again. Between the look and the registration nothing
awaits, so no touch can fall into the gap, which is what Kafka's second try is for.
"""

from collections.abc import Callable, Collection, Hashable
from heapq import heapify, heappop, heappush

import trio


class Purgatory:
    """Requests that wait, by the keys that may end their waiting."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, set[trio.Event]] = {}

    async def until(
        self, ready: Callable[[], bool], keys: Collection[Hashable], deadline: float
    ) -> bool:
        """Wait until `ready()`, asked again whenever one of `keys` is touched.

        `deadline` is in seconds of trio's clock. Returns what `ready()` says at the end: False means the time ran out.
        """
        with trio.CancelScope(deadline=deadline):
            while True:
                if ready():
                    return True
                touched = trio.Event()
                for key in keys:
                    self._waiting.setdefault(key, set()).add(touched)
                try:
                    await touched.wait()
                finally:
                    for key in keys:
                        self._leave(key, touched)
        return ready()

    def touch(self, key: Hashable) -> None:
        """Have everyone who waits on `key` look again."""
        waiting = self._waiting.get(key)
        if waiting:
            for touched in waiting:
                touched.set()

    @property
    def waiting(self) -> int:
        """How many keys are being waited on."""
        return len(self._waiting)

    def _leave(self, key: Hashable, touched: trio.Event) -> None:
        waiting = self._waiting[key]
        waiting.discard(touched)
        if not waiting:
            del self._waiting[key]


class Held:
    """Who waits for something that grows to reach a number: it wakes those whose number it has reached, and no other."""

    __slots__ = ("_count", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, trio.Event]] = []
        self._count = 0

    async def wait(self, number: int) -> None:
        """Until `number` is reached, or everybody is released."""
        released = trio.Event()
        self._count += 1
        entry = (number, self._count, released)
        heappush(self._waiting, entry)
        try:
            await released.wait()
        finally:
            if not released.is_set():
                self._waiting.remove(entry)
                heapify(self._waiting)

    def release(self, number: int) -> None:
        """`number` is reached."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= number:
            heappop(waiting)[2].set()

    def release_all(self) -> None:
        """Nothing is as it was: everybody looks again."""
        waiting, self._waiting = self._waiting, []
        for _, _, released in waiting:
            released.set()
