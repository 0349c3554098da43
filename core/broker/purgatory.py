"""Waiting for something to move: a high watermark, a log end, a group, an image.

Kafka's purgatory is an object with callbacks: try, watch, try again, complete once. Here it is an await. A waiter looks,
registers, and sleeps until one of its keys is touched; then it looks again. Between the look and the registration nothing
awaits, so no touch can fall into the gap, which is what Kafka's second try is for.
"""

from collections.abc import Callable, Collection, Hashable

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
