"""Partitioners: choose the partition of a record.

A key always goes to the same partition as with Java's producer: murmur2 of its bytes, with the sign
bit cleared, modulo the number of partitions. Records without a key go to one partition until it has
received `batch.size` bytes, and then to another (KIP-480, KIP-794), so that batches fill up. With
adaptive partitioning, partitions with shorter queues are more likely to be chosen.
"""

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

from pk.core.murmur2 import murmur2

Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""(topic, key, value, number of partitions) → partition."""

_CACHED_KEYS_MAX: Final = 65_536


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of `key` among `partitions`, as in Java's producer."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class KeyCache(dict[bytes, int]):
    """A bounded cache of `partition_for_key`, since keys repeat; for one topic with a fixed number
    of partitions."""

    __slots__ = ("partitions",)

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self.partitions = partitions

    def __missing__(self, key: bytes) -> int:
        if len(self) >= _CACHED_KEYS_MAX:
            self.clear()
        partition = self[key] = partition_for_key(key, self.partitions)
        return partition


def round_robin() -> Partitioner:
    """Return a partitioner that distributes the records of each topic in turn, regardless of their
    keys."""
    turns: dict[str, int] = {}

    def choose(topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int:
        turn = turns.get(topic, random.randrange(partitions))
        turns[topic] = turn + 1
        return turn % partitions

    return choose


class Sticky:
    """The current partition of a topic for records without keys."""

    __slots__ = ("_batch_bytes", "_bytes_left", "partition")

    def __init__(self, batch_bytes: int) -> None:
        self.partition = -1
        self._bytes_left = 0
        self._batch_bytes = max(1, batch_bytes)

    def due(self, partitions: int) -> bool:
        """Return whether `choose` must be called before the next record."""
        return self._bytes_left <= 0 or not 0 <= self.partition < partitions

    def choose(self, available: Sequence[int], queued: Sequence[int] | None) -> None:
        """Switch to one of the `available` partitions. Partitions with more `queued` batches are
        less likely to be chosen."""
        if queued is None or len(available) < 2 or min(queued) == max(queued):
            self.partition = random.choice(available)
        else:
            most = max(queued) + 1
            weights = list(accumulate(most - count for count in queued))
            self.partition = available[bisect_right(weights, random.randrange(weights[-1]))]
        self._bytes_left = self._batch_bytes

    def add(self, size_bytes: int) -> None:
        """Count bytes that were added to the partition."""
        self._bytes_left -= size_bytes
