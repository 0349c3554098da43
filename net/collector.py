"""Keeping the garbage collector's pauses short in a process that serves.

A full collection looks through every object there is, and nothing else runs meanwhile: with 10,000 partitions that is a fifth
of a second, each time the heap has grown by a quarter. What it finds alive then stays alive for long: logs, partitions,
images. So after a collection that took too long the survivors are frozen: later ones pass them by, and look at what is new.
What is frozen is still freed when the last reference to it goes, as a deleted topic's partitions are, which form no cycles.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time
from typing import Final

LONG_S: Final = 0.005
"""Of the processor's time: a collection on a busy machine is not longer for that."""


@contextmanager
def short_collections(long_s: float = LONG_S) -> Iterator[None]:
    """Within it what survives a full collection of at least `long_s` is not looked at again."""
    oldest = len(gc.get_threshold()) - 1
    begun = 0.0

    def follow(phase: str, info: dict[str, int]) -> None:
        nonlocal begun
        if phase == "start":
            begun = thread_time()
        elif info["generation"] == oldest and thread_time() - begun >= long_s:
            gc.freeze()

    gc.callbacks.append(follow)
    try:
        yield
    finally:
        gc.callbacks.remove(follow)
