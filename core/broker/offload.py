"""Runs blocking work off the event loop.

fsync, renames, scans and cold reads take milliseconds to seconds; the event loop serves every
connection and must not block. They run in threads, with a limiter for each log directory, so that
one slow disk leaves threads for the others.

With the simulator's clock, a call in a thread looks idle, and every timeout would expire at once.
There, `inline()` runs the same calls in place, which makes a simulated run a function of its seed.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, TypeVarTuple

import trio

from pk.core.errors import storable

T = TypeVar("T")
Args = TypeVarTuple("Args")

THREADS_PER_DIRECTORY = 8

_inline: ContextVar[bool] = ContextVar("inline", default=False)
_limiters: trio.lowlevel.RunVar[dict[str, trio.CapacityLimiter]] = trio.lowlevel.RunVar("limiters")


async def offload(
    fn: Callable[[*Args], T],
    *args: *Args,
    directory: str = "",
    limiter: trio.CapacityLimiter | None = None,
) -> T:
    """Run `fn(*args)` in a thread and wait for it, even if cancelled: unfinished disk work would
    have no owner.

    `directory` is the log directory that the work uses; each has at most `THREADS_PER_DIRECTORY`
    threads. A `limiter` is given for work that should not use a directory's threads.
    """
    if _inline.get():
        await trio.lowlevel.checkpoint()
        return fn(*args)
    result, error = await trio.to_thread.run_sync(
        _outcome, fn, args, limiter=_limiter(directory) if limiter is None else limiter
    )
    if error is not None:
        try:
            raise error
        finally:
            del error  # it references this frame, which only the garbage collector would free
    return result


def _outcome(fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    """Return the result of `fn`, and its exception. If trio moved an exception from one thread to
    another, the exception would reference itself through its frames there, so everything that they
    hold would stay in memory until a full collection."""
    try:
        return fn(*args), None
    except Exception as e:  # noqa: BLE001 (the caller gets it)
        return None, storable(e)


@contextmanager
def inline() -> Generator[None]:
    """Run offloaded work on the event loop, in this block and in tasks started within it."""
    token = _inline.set(True)
    try:
        yield
    finally:
        _inline.reset(token)


def is_inline() -> bool:
    """Return whether offloaded work runs on the event loop here."""
    return _inline.get()


def _limiter(directory: str) -> trio.CapacityLimiter:
    try:
        limiters = _limiters.get()
    except LookupError:
        limiters: dict[str, trio.CapacityLimiter] = {}
        _limiters.set(limiters)
    limiter = limiters.get(directory)
    if limiter is None:
        limiter = limiters[directory] = trio.CapacityLimiter(THREADS_PER_DIRECTORY)
    return limiter
