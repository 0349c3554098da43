"""Polls until a condition holds."""

from collections.abc import Awaitable, Callable

import trio


async def poll_until(
    shown: Callable[[], Awaitable[bool]], *, every_s: float, within_s: float
) -> bool:
    """Whether `shown` holds within `within_s` seconds; it is asked every `every_s` seconds. Raises
    what `shown` raises."""
    with trio.move_on_after(within_s):
        while not await shown():  # noqa: ASYNC110 - others change it, without notice
            await trio.sleep(every_s)
        return True
    return False
