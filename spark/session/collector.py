"""Python's garbage collector in the processes that Spark starts.

A worker collects everything after each task, and the next task that it gets waits for that. Almost
all objects that a collection scans belong to imported modules, some 65,000: 40 ms of CPU, as much
as a small task takes. They live as long as the process, so they are frozen.
"""

import gc
import os

_done_in: list[int] = []


def put_modules_aside() -> None:
    """Leaves what there is now out of all later collections. Only the first call in a process has
    an effect, so that what later tasks leave is collected."""
    if _done_in != [os.getpid()]:
        _done_in[:] = [os.getpid()]
        gc.freeze()
