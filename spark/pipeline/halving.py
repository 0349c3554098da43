"""Finds the records that fail by running parts of a batch, each half the size of the previous
one."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pk.spark.read.ranges import OffsetRange

Fails = Callable[[Sequence[OffsetRange]], str | None]
"""A function that runs the records of some ranges, and returns why they fail; None if they
succeed."""


def failing(
    ranges: Sequence[OffsetRange], said: str, fails: Fails, most: int
) -> list[tuple[OffsetRange, str]]:
    """Find the offsets whose records fail by themselves, in order, each with the reason; at most
    `most`. Empty if records fail only together. `said` is the reason why all of `ranges` fail.

    To find K failing records among N takes about K * log2(N / K) runs.
    """
    found: list[tuple[OffsetRange, str]] = []
    # The reason of a part is known if it failed, or if its other half succeeded: then this part
    # must fail.
    waiting: list[tuple[list[OffsetRange], str | None]] = [
        ([each for each in ranges if each.offsets > 0], said)
    ]
    while waiting and len(found) < most:
        part, why = waiting.pop()
        if not part:
            continue
        one = len(part) == 1 and part[0].offsets == 1
        if why is None or one:
            why = fails(part)  # a single record is always run, so none is reported untested
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
    """Split ranges into two parts with about the same number of offsets."""
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
