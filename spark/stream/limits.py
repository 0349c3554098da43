"""The number of new offsets in a batch: `maxOffsetsPerTrigger`, `minOffsetsPerTrigger`,
`maxTriggerDelay`.

The rules are those of Spark's own Kafka source, so that a query that moves over has batches of the
same sizes.
"""

import math
from collections.abc import Mapping

from pk.core.values import TopicPartition
from pk.spark.read.options import BatchLimits


def shared_out(
    offsets_max: int, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The end of a batch of about `offsets_max` offsets from `begin`: each partition gets a share
    in proportion to its new offsets.

    A partition's share is at least one offset, so that a small one moves on; a batch may therefore
    have some more.
    """
    sizes = {tp: end[tp] - begin.get(tp, 0) for tp in end}
    total = sum(size for size in sizes.values() if size > 0)
    if total <= offsets_max:
        return dict(end)
    found: dict[TopicPartition, int] = {}
    for tp, size in sizes.items():
        share = offsets_max * max(size, 0) / total
        count = math.ceil(share) if share < 1 else math.floor(share)
        found[tp] = min(begin.get(tp, 0) + count, end[tp]) if size > 0 else end[tp]
    return found


class Delay:
    """Whether a batch waits for more (`minOffsetsPerTrigger`)."""

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._last_ms = -math.inf

    def waits(self, new_offsets: int, now_ms: float) -> bool:
        """Whether `new_offsets` are too few. The first batch never waits, nor one after
        `delay_max_ms`."""
        limits = self._limits
        late = now_ms - self._last_ms >= limits.delay_max_ms
        if new_offsets < (limits.offsets_min or 0) and not late:
            return True
        self._last_ms = now_ms
        return False
