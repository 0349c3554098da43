"""The offset ranges that tasks read: planned from what each partition holds, and split evenly.

Offsets are not records: compacted partitions have gaps, and transaction markers use offsets. So a
plan counts offsets; the number of records is known only after reading.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pk.core.values import ZERO_UUID, TopicPartition, Uuid

OFFSETS_A_RANGE: Final = 2_000_000
"""The default number of offsets above which several tasks share a partition."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A range of offsets of one partition, from `begin` up to but not including `end`."""

    topic: str
    partition: int
    begin: int
    end: int
    topic_id: Uuid = ZERO_UUID
    """Zero if the broker is too old to send the id."""

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
    """Split `ranges` into even pieces of at most `offsets_max` offsets each, and drop empty ranges.

    Makes at least `min_ranges` pieces if there are enough offsets: each range is split in
    proportion to its share, as Spark's Kafka source does. Keeps the order of the ranges and of
    their pieces.
    """
    if min_ranges < 1 or offsets_max < 1:
        raise ValueError("a plan has at least one range of at least one offset")
    whole = [r for r in ranges if r.offsets > 0]
    pieces = {r: -(-r.offsets // offsets_max) for r in whole}
    total = sum(r.offsets for r in whole)
    if sum(pieces.values()) < min_ranges:
        for r in whole:
            pieces[r] = max(pieces[r], min(round(min_ranges * r.offsets / total), r.offsets))
    # Rounding may have produced too few pieces: split the largest ones further.
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
    """Join the pieces of each partition, which must have no gaps between them."""
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
    """The number of offsets in `ranges`."""
    values = ranges.values() if isinstance(ranges, Mapping) else ranges
    return sum(r.offsets for r in values)
