"""Which offsets one task reads: planned from what each partition holds, cut so that tasks are even.

Offsets are not records: a compacted partition has holes, a transaction takes offsets for its markers. So a plan counts
offsets, and only who has read a range knows its records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pk.core.values import ZERO_UUID, TopicPartition, Uuid

OFFSETS_A_RANGE: Final = 2_000_000
"""A partition with more offsets than this is read by several tasks, unless the caller says otherwise."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets from `begin` up to but not including `end` of one partition."""

    topic: str
    partition: int
    begin: int
    end: int
    topic_id: Uuid = ZERO_UUID
    """Zero where the broker is too old to have told it."""

    @property
    def offsets(self) -> int:
        return self.end - self.begin

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def split(
    ranges: Sequence[OffsetRange],
    *,
    min_ranges: int = 1,
    offsets_max: int = OFFSETS_A_RANGE,
) -> list[OffsetRange]:
    """`ranges` cut into even pieces of at most `offsets_max` each; empty ones are left out.

    There are at least `min_ranges` pieces where there are as many offsets: a range is cut in proportion to its share of
    all, as Spark's Kafka source does. The order of the ranges, and of the pieces of each, is kept.
    """
    if min_ranges < 1 or offsets_max < 1:
        raise ValueError("a plan has at least one range of at least one offset")
    whole = [r for r in ranges if r.offsets > 0]
    pieces = {r: -(-r.offsets // offsets_max) for r in whole}
    total = sum(r.offsets for r in whole)
    if sum(pieces.values()) < min_ranges:
        for r in whole:
            pieces[r] = max(pieces[r], min(round(min_ranges * r.offsets / total), r.offsets))
    # Rounding may have left a few out: they go where the pieces are largest.
    while sum(pieces.values()) < min(min_ranges, total):
        largest = max(whole, key=lambda r: r.offsets / pieces[r] if pieces[r] < r.offsets else 0)
        pieces[largest] += 1
    return [piece for r in whole for piece in _cut(r, pieces[r])]


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    edges = [whole.begin + whole.offsets * i // count for i in range(count + 1)]
    return [
        OffsetRange(whole.topic, whole.partition, begin, end, whole.topic_id)
        for begin, end in pairwise(edges)
    ]


def merged(ranges: Sequence[OffsetRange]) -> dict[TopicPartition, OffsetRange]:
    """The pieces of each partition put together again; they must lie end to end."""
    found: dict[TopicPartition, OffsetRange] = {}
    for r in sorted(ranges, key=lambda r: (r.topic, r.partition, r.begin)):
        before = found.get(r.topic_partition)
        if before is None:
            found[r.topic_partition] = r
            continue
        assert before.end == r.begin, f"{r} does not follow {before}"
        found[r.topic_partition] = OffsetRange(
            r.topic, r.partition, before.begin, r.end, r.topic_id
        )
    return found


def total_offsets(ranges: Sequence[OffsetRange] | Mapping[TopicPartition, OffsetRange]) -> int:
    """How many offsets `ranges` span."""
    values = ranges.values() if isinstance(ranges, Mapping) else ranges
    return sum(r.offsets for r in values)
