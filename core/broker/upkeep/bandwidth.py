"""Reads in threads with limited bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

import trio

from pk.core.broker.offload import offload

T = TypeVar("T")


class Bandwidth:
    """The bandwidth shared by several tasks."""

    def __init__(self, bytes_per_s: Callable[[], float]) -> None:
        """`bytes_per_s` returns the current limit."""
        self._bytes_per_s = bytes_per_s
        self._free_at = float("-inf")

    async def used(self, used_bytes: int) -> None:
        """Wait as long as the limit requires after `used_bytes` were read."""
        now = trio.current_time()
        self._free_at = max(self._free_at, now) + used_bytes / self._bytes_per_s()
        await trio.sleep_until(self._free_at)

    async def run(self, steps: Generator[int, None, T], directory: str) -> T:
        """Run `steps`, each of which yields the number of bytes it has read, in threads of the log
        directory `directory`. Returns their result."""
        try:
            while True:
                step_bytes, found = await offload(_step, steps, directory=directory)
                if step_bytes is None:
                    return found[0]
                await self.used(step_bytes)
        finally:
            steps.close()


def _step(steps: Generator[int, None, T]) -> tuple[int | None, list[T]]:
    """Return the number of bytes of the next step; at the end None, and the result."""
    try:
        return next(steps), []
    except StopIteration as e:
        return None, [e.value]
