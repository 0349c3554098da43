"""Finds the records that fail by running parts of a batch, each half as large as the one before."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pk.spark.read.ranges import OffsetRange

Fails = Callable[[Sequence[OffsetRange]], str | None]
"""Runs the records of some ranges; why that fails, or None."""


def failing(
    ranges: Sequence[OffsetRange], said: str, fails: Fails, most: int
) -> list[tuple[OffsetRange, str]]:
    """The offsets whose records fail by themselves, in order, each with the reason; no more than
    `most`. Empty if only several records together fail. `said` is why all of `ranges` fail.

    K of N records take about K * log2(N / K) runs.
    """
    found: list[tuple[OffsetRange, str]] = []
    # The reason is known of a part whose other half runs: then it is this part that fails.
    waiting: list[tuple[list[OffsetRange], str | None]] = [
        ([each for each in ranges if each.offsets > 0], said)
    ]
    while waiting and len(found) < most:
        part, why = waiting.pop()
        if not part:
            continue
        one = len(part) == 1 and part[0].offsets == 1
        if why is None or one:
            why = fails(part)  # a single record is always tried, so none is blamed untested
        if why is None:
            continue
        if one:
            found.append((part[0], why))
            continue
        left, right = _halves(part)
        failed = fails(left)
        waiting.append((right, why if failed is None else None))
        if failed is not None:
            waiting.append((left, failed))
    return found


def _halves(ranges: list[OffsetRange]) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """Two parts of about as many offsets."""
    wanted = sum(each.offsets for each in ranges) // 2
    left: list[OffsetRange] = []
    for number, each in enumerate(ranges):
        if each.offsets > wanted:
            middle = each.begin + wanted
            right = [replace(each, begin=middle), *ranges[number + 1 :]]
            return (left if wanted == 0 else [*left, replace(each, end=middle)]), right
        left.append(each)
        wanted -= each.offsets
    raise AssertionError("half of the offsets are fewer than all of them")
