"""The order in which Java walks its hash maps, where that order shows.

Kafka breaks some ties by walking a `HashMap`: which protocol wins a vote, which partitions of a topic come first in an
assignment. Members of one group may be served by either kind of coordinator or leader, so the answer should not depend on
it. The order is a function of the keys' hash codes, of the table's size and, within one bucket, of the order of insertion.
(Buckets of eight and more, which Java turns into trees, keep the order of insertion well enough in practice: a table grows
at three quarters of its size.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from pk.core.values import java_string_hash

T = TypeVar("T")

_DEFAULT_CAPACITY = 16


def hash_map_order(
    keys: Iterable[T],
    hash_code: Callable[[T], int] | None = None,
    *,
    capacity: int = _DEFAULT_CAPACITY,
) -> list[T]:
    """`keys` (distinct, in order of insertion) as a `HashMap` that they were put into one by one would give them back.

    `hash_code` is Java's for the keys' type, by default that of strings; `capacity` the table's size at first, a power of
    two.
    """
    hash_of = hash_code or java_string_hash  # type: ignore[assignment]
    found = list(keys)
    while len(found) * 4 > capacity * 3:
        capacity *= 2
    buckets: dict[int, list[T]] = {}
    for key in found:
        value = hash_of(key) & 0xFFFFFFFF  # type: ignore[arg-type]
        buckets.setdefault((value ^ (value >> 16)) & (capacity - 1), []).append(key)
    return [key for index in sorted(buckets) for key in buckets[index]]
