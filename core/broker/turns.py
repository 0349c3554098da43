"""Long work in turns (core/turns.py) on the loop: a checkpoint at each pause.

The work is not cancelled at these checkpoints. It is short enough to be waited for, and what it has
made so far would be freed all at once.
"""

from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

import trio

from pk.core.turns import AT_ONCE, Turns

T = TypeVar("T")


async def pause() -> None:
    """Let the others have their turn."""
    await trio.lowlevel.cancel_shielded_checkpoint()


async def finish(work: Turns[T]) -> T:
    """What `work` comes to."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            return done.value
        await pause()


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Each of `items`; those beyond the first `AT_ONCE` after a checkpoint for as many."""
    for done, item in enumerate(items):
        if done and not done % AT_ONCE:
            await pause()
        yield item
