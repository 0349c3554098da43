"""Python's garbage collector in the processes that Spark starts.

A worker runs a full collection after each task, and the worker's next task waits for it. Almost all
of the objects scanned, some 65,000, belong to imported modules. Scanning them takes 40 ms of CPU,
as long as a small task. They exist as long as the process, so they are frozen.
"""

import gc
import os

_done_in: list[int] = []


def freeze_modules() -> None:
    """Freeze all existing objects, so that later collections skip them. Only the first call in a
    process has an effect, so that objects left over by tasks are still collected."""
    if _done_in != [os.getpid()]:
        _done_in[:] = [os.getpid()]
        gc.freeze()
