"""Keeps the garbage collector's pauses short in a serving process.

A full collection scans every object while nothing else runs: with 10,000 partitions this takes 0.2
s each time the heap has grown by a quarter. Most objects that survive a collection live long: logs,
partitions, images. So after a collection that took too long, the survivors are frozen, and later
collections scan only newer objects. A frozen object is still freed with its last reference. An
example is the partitions of a deleted topic, which form no cycles.

A full collection runs after 7,000 new objects, not after Python's 70,000, so that each is short and
its survivors are frozen soon.

The smaller number is enough even for a request with 100,000 partitions, since messages are not
tracked (core/wire/schema.py). A collection during such a request takes 7 ms, and at most 50 ms for
a commit of 100,000 offsets, which has a record for each.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from time import thread_time
from typing import Final

STARTING: Final = (100_000, 50, 1000)
"""The collection thresholds while a node starts: new objects, then collections of the younger
generation before an older one."""

LONG_S: Final = 0.002
"""A collection that takes more CPU time than this is long. CPU time does not depend on other
processes."""


THRESHOLDS: Final = (700, 5, 2)
"""New objects before the youngest generation is collected, and collections of each generation
before the next."""


@contextmanager
def short_collections(long_s: float = LONG_S) -> Generator[None]:
    """During the block, exempt the survivors of a full collection of at least `long_s` from later
    scans."""
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
    """Make collections rare during the block. Nearly all objects that a starting node creates stay:
    with 50,000 partitions, looking for garbage took a fifth of the start."""
    before = gc.get_threshold()
    gc.set_threshold(*STARTING)
    try:
        yield
    finally:
        gc.set_threshold(*before)
