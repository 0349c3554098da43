"""Keeping the garbage collector's pauses short in a process that serves.

A full collection looks through every object there is, and nothing else runs meanwhile: with 10,000
partitions that is a fifth of a second, each time the heap has grown by a quarter. What it finds
alive then stays alive for long: logs, partitions, images. So after a collection that took too long
the survivors are frozen: later ones pass them by, and look at what is new. What is frozen is still
freed when the last reference to it goes, as a deleted topic's partitions are, which form no cycles.

Full collections come after 7,000 new objects, not after Python's 70,000: each is short, and what it
finds is frozen soon.

A request that names 100,000 partitions makes half a million objects at once, which are freed
without the collector: they form no cycles. Collections that look through them, and visit each
element of their lists, took 10 to 30 ms; so there are none while a large request is decoded,
handled and freed. What it leaves behind, such as a fetch session, is frozen.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from time import thread_time
from typing import Final

STARTING: Final = (100_000, 50, 1000)
"""How many new objects, younger collections and so on a collection waits for while a node
starts."""

LONG_S: Final = 0.002
"""Of the processor's time: a collection on a busy machine is not longer for that."""


THRESHOLDS: Final = (700, 5, 2)
"""New objects before the youngest generation is looked at, and how often that is before the next
one is."""


WITH_LARGE_REQUEST: Final = 5_000_000
"""New objects before a collection while a large request is handled: some requests wait for long."""


@contextmanager
def short_collections(long_s: float = LONG_S) -> Generator[None]:
    """Within it what survives a full collection of at least `long_s` is not looked at again."""
    oldest = len(gc.get_threshold()) - 1
    begun, thresholds = 0.0, gc.get_threshold()

    def follow(phase: str, info: dict[str, int]) -> None:
        nonlocal begun
        if phase == "start":
            begun = thread_time()
        elif info["generation"] == oldest and thread_time() - begun >= long_s:
            gc.freeze()

    gc.callbacks.append(follow)
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(follow)


@contextmanager
def rare_collections() -> Generator[None]:
    """Within it collections are rare. While a node starts nearly all that it makes stays: with
    50,000 partitions looking for what does not was a fifth of a start."""
    before = gc.get_threshold()
    gc.set_threshold(*STARTING)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _LargeRequests:
    """How many are being handled in this process, and the thresholds of before."""

    count = 0
    thresholds: tuple[int, int, int] = THRESHOLDS


@contextmanager
def large_request() -> Generator[None]:
    """Within it there are no collections, unless millions of objects are made; several may
    overlap."""
    if not _LargeRequests.count:
        _LargeRequests.thresholds = gc.get_threshold()
        gc.set_threshold(WITH_LARGE_REQUEST)
    _LargeRequests.count += 1
    try:
        yield
    finally:
        _LargeRequests.count -= 1
        if not _LargeRequests.count:
            gc.freeze()
            gc.set_threshold(*_LargeRequests.thresholds)
