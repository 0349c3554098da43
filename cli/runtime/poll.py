"""Polls until a condition holds."""

import math
from collections.abc import Awaitable, Callable

import trio

_GROWS = 1.5


async def poll_until(
    shown: Callable[[], Awaitable[bool]],
    *,
    every_s: float,
    within_s: float = math.inf,
    most_s: float | None = None,
) -> bool:
    """Whether `shown` holds within `within_s` seconds; 0 asks once, however long that takes.

    It is asked every `every_s` seconds; if `most_s` is given, the pauses grow up to that. Raises
    what `shown` raises.
    """
    if not within_s:
        return await shown()
    with trio.move_on_after(within_s):
        while not await shown():
            await trio.sleep(every_s)
            every_s = min(every_s * _GROWS, most_s or every_s)
        return True
    return False
