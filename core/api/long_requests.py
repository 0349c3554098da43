"""Going through what one request names without keeping the loop from everybody else: that may be a million things."""

from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

import trio

T = TypeVar("T")

AT_ONCE: Final = 256
"""Looked at between two checkpoints: a millisecond or two."""


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Each of `items`; those beyond the first `AT_ONCE` after a checkpoint for as many."""
    for done, item in enumerate(items):
        if done and not done % AT_ONCE:
            await trio.lowlevel.checkpoint()
        yield item
