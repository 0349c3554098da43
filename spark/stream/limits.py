"""Limits the size of batches: `maxOffsetsPerTrigger`, `minOffsetsPerTrigger`, `maxTriggerDelay`.

The rules are the same as in Spark's own Kafka source, so that the batches of a migrated query have
the same sizes.
"""

import math
from collections.abc import Mapping

from pk.core.values import TopicPartition
from pk.spark.read.options import BatchLimits


def proportional_ends(
    offsets_max: int, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The end of a batch of about `offsets_max` offsets from `begin`: each partition gets a share
    in proportion to its new offsets.

    The share of a partition with new offsets is at least one, so that small partitions make
    progress. So a batch may have slightly more than `offsets_max` offsets.
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
    """The delay of batches that have too few new offsets (`minOffsetsPerTrigger`)."""

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._last_ms = -math.inf

    def waits(self, new_offsets: int, now_ms: float) -> bool:
        """Whether a batch must wait, because `new_offsets` are too few. The first batch never
        waits, nor does one after `delay_max_ms`."""
        limits = self._limits
        late = now_ms - self._last_ms >= limits.delay_max_ms
        if new_offsets < (limits.offsets_min or 0) and not late:
            return True
        self._last_ms = now_ms
        return False
