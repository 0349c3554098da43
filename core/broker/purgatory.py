"""Waits for something to advance: a high watermark, a log end, a group, an image.

Kafka's purgatory is an object with callbacks: try, watch, try again, complete once. Here it is an
await. A waiter checks, registers, and sleeps until one of its keys is touched; then it checks
again. Nothing awaits between the check and the registration, so no touch can be missed, which is
the purpose of Kafka's second try.
"""

from collections.abc import Callable, Collection, Hashable
from heapq import heapify, heappop, heappush

import trio

from pk.core.broker.turns import finish, in_turns
from pk.core.turns import Turns


class Purgatory:
    """Requests that wait, by the keys that may complete them."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, set[trio.Event]] = {}

    @property
    def size(self) -> int:
        """How many keys requests wait for."""
        return len(self._waiting)

    async def until(
        self,
        ready: Callable[[], bool],
        keys: Collection[Hashable],
        deadline: float,
        *,
        touched: trio.Event | None = None,
    ) -> bool:
        """Wait until `ready()`, checked again whenever one of `keys` is touched.

        `deadline` is in seconds of trio's clock. `touched` is an event from `watch`, of a caller
        who has checked: it must not pause between its own check and `watch`. Returns the last
        result of `ready()`: False means that the time ran out.
        """
        with trio.CancelScope(deadline=deadline):
            while touched is not None or not ready():
                if touched is None:
                    touched = self.watch(keys)
                try:
                    if not touched.is_set():
                        await touched.wait()
                finally:
                    for key in keys:
                        self._leave(key, touched)
                touched = None
            return True
        return ready()

    def watch(self, keys: Collection[Hashable]) -> trio.Event:
        """An event that is set when one of `keys` is touched. Who asks for it must hand it to
        `until`, with the same keys, which ends the watch."""
        touched = trio.Event()
        for key in keys:
            self._waiting.setdefault(key, set()).add(touched)
        return touched

    async def until_in_turns(
        self, ready: Callable[[], Turns[bool]], keys: Collection[Hashable], deadline: float
    ) -> bool:
        """As `until`, for a look that takes several turns (core/turns.py): what is touched
        meanwhile is looked at again.

        `keys` may be many too.
        """
        with trio.CancelScope(deadline=deadline):
            while True:
                touched = trio.Event()
                try:
                    async for key in in_turns(keys):
                        self._waiting.setdefault(key, set()).add(touched)
                    if await finish(ready()):
                        return True
                    await touched.wait()
                finally:
                    async for key in in_turns(keys):
                        if touched in self._waiting.get(key, ()):
                            self._leave(key, touched)
        return await finish(ready())

    def touch(self, key: Hashable) -> None:
        """Have every waiter on `key` check again."""
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
    """Waiters for a growing number: wakes only those whose number is reached."""

    __slots__ = ("_count", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, trio.Event]] = []
        self._count = 0

    async def wait(self, number: int) -> None:
        """Wait until `number` is reached, or all are released."""
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
        """Wake the waiters for numbers up to `number`."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= number:
            heappop(waiting)[2].set()

    def release_all(self) -> None:
        """Wake all waiters, which must check again."""
        waiting, self._waiting = self._waiting, []
        for _, _, released in waiting:
            released.set()
