"""The number of cores that this process may use."""

import contextlib
import os


def cores() -> int:
    """The number of cores that this process may use."""
    with contextlib.suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
