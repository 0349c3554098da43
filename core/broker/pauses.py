"""Long work in turns (core/turns.py) on the loop: a checkpoint at each pause.

The work is not cancelled at these checkpoints. It is short enough to be waited for, and what it has
made so far would be freed all at once.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, TypeVar, cast

import trio

from pk.core.turns import AT_ONCE, FREED_AT_ONCE, Pace, Turns
from pk.core.wire.elements import arrays_of

T = TypeVar("T")

AT_WORK_MAX: Final = 4

_line: trio.lowlevel.RunVar[trio.Semaphore] = trio.lowlevel.RunVar("line")


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


async def finish_in_line(work: Turns[T]) -> T:
    """As `finish`, of what many clients may ask for at once: work that pauses waits until less than
    `AT_WORK_MAX` others are under way. Each has a turn whenever the loop goes round, and what they
    have made so far is in memory. May be cancelled while it waits."""
    try:
        next(work)
    except StopIteration as done:
        return done.value
    try:
        line = _line.get()
    except LookupError:
        line = trio.Semaphore(AT_WORK_MAX)
        _line.set(line)
    async with line:
        return await finish(work)


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Each of `items`; those beyond the first `AT_ONCE` after a checkpoint for as many."""
    for done, item in enumerate(items):
        if done and not done % AT_ONCE:
            await pause()
        yield item


async def let_go(messages: list[Any]) -> None:
    """Free large messages in turns, and empty the list. Nothing else may refer to them: their
    elements live until their turn comes."""
    pace = Pace(FREED_AT_ONCE)
    heap: list[list[Any]] = [messages]
    del messages
    while heap:
        if not heap[-1]:
            heap.pop()
            continue
        each, count = heap[-1].pop(), 1
        for name, holds_arrays in arrays_of(cast(type[Any], type(each))):
            value = getattr(each, name)
            if value and (holds_arrays or len(value) > AT_ONCE):
                # A copy: what it was taken from may be in use elsewhere, and keeps its elements
                # then.
                heap.append(value.copy())
            elif value:
                count += len(value)
            value = None
        each = None
        if pace.due(count):
            await pause()
