"""How thorough a run is. The everyday run takes a share of the examples that hypothesis makes, and
of the versions of a request that differ in nothing a test looks at, and each third of the places at
which a history is cut off; with PK_THOROUGH set, which .ci/run does, a run takes all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

THOROUGH = bool(os.environ.get("PK_THOROUGH") or os.environ.get("PK_EXPLORE"))

_SHARE = 4
_EXAMPLES_MIN = 5

STRIDE = 1 if THOROUGH else 3
"""The distance between two operations that fail, for tests that let every operation of a history
fail. The everyday run takes every third one."""


def examples(count: int) -> int:
    """The number of examples in this run, if a thorough run takes `count`."""
    return count if THOROUGH else max(count // _SHARE, min(count, _EXAMPLES_MIN))


def versions(every: Iterable[int], differing: Iterable[int]) -> list[int]:
    """The versions of a request to try: in the everyday run only `differing`, those whose format
    differs from that of the version before."""
    return list(every if THOROUGH else differing)
