"""The iteration order of Java's hash maps, for results that visibly depend on that order.

Kafka breaks some ties by iterating over a `HashMap`: which protocol wins a vote, which partitions
of a topic come first in an assignment. pk and Kafka may serve members of one group in turn, so the
result must not depend on which of them does. The order is a function of the keys' hash codes, of
the table's size and, within one bucket, of the order of insertion. (Java turns buckets of eight or
more keys into trees. They keep the order of insertion well enough in practice, because a table
grows at three quarters of its size.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from pk.core.values import java_string_hash

T = TypeVar("T")

_DEFAULT_CAPACITY = 16


def java_order(text: str) -> bytes:
    """Return a key that sorts strings as Java does."""
    return text.encode("utf-16-be", "surrogatepass")


def hash_map_order(
    keys: Iterable[T],
    hash_code: Callable[[T], int] | None = None,
    *,
    capacity: int = _DEFAULT_CAPACITY,
) -> list[T]:
    """Return `keys` (distinct, in order of insertion) in the iteration order of a `HashMap` to
    which they were added one by one.

    `hash_code` is Java's for the keys' type, by default that of strings; `capacity` is the table's
    initial size, a power of two.
    """
    found = list(keys)
    while len(found) * 4 > capacity * 3:
        capacity *= 2
    return _by_bucket(found, hash_code or java_string_hash, capacity)  # type: ignore[arg-type]


def computed_order(calls: Iterable[str]) -> list[str]:
    """Return the iteration order of a `HashMap` that was filled by `computeIfAbsent`, called with
    each of `calls`, including repetitions.

    That method inserts a new key before the others of its bucket. It grows the table in the first
    call after the table has become too full.
    """
    capacity = _DEFAULT_CAPACITY
    found: dict[str, None] = {}
    for key in calls:
        if len(found) * 4 > capacity * 3:
            capacity *= 2
        found[key] = None
    return _by_bucket(reversed(found), java_string_hash, capacity)


def _by_bucket(keys: Iterable[T], hash_code: Callable[[T], int], capacity: int) -> list[T]:
    buckets: dict[int, list[T]] = {}
    for key in keys:
        value = hash_code(key) & 0xFFFFFFFF
        buckets.setdefault((value ^ (value >> 16)) & (capacity - 1), []).append(key)
    return [key for index in sorted(buckets) for key in buckets[index]]


class PriorityQueue(Generic[T]):
    """`java.util.PriorityQueue`: among equally small elements, it returns the same one first.

    `heapq` arranges its heap differently when it removes an element.
    """

    def __init__(self, key: Callable[[T], float], elements: Iterable[T] = ()) -> None:
        """Fill the queue with `elements`. The `key` of an element may change only while it is not
        in the queue."""
        self._key = key
        self._heap: list[T] = []
        for element in elements:
            self.add(element)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, element: T) -> None:
        """Add `element`."""
        heap, key = self._heap, self._key
        heap.append(element)
        at, value = len(heap) - 1, key(element)
        while at > 0:
            parent = (at - 1) >> 1
            if value >= key(heap[parent]):
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = element

    def poll(self) -> T:
        """Remove and return the smallest element. Raises IndexError if the queue is empty."""
        heap, key = self._heap, self._key
        last = heap.pop()
        if not heap:
            return last
        smallest, at, size = heap[0], 0, len(heap)
        value = key(last)
        while (child := 2 * at + 1) < size:
            if child + 1 < size and key(heap[child]) > key(heap[child + 1]):
                child += 1
            if value <= key(heap[child]):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = last
        return smallest


class HashSetOrder(Generic[T]):
    """A set that knows which of its elements a Java `HashSet` iterates over first. Such a set never
    shrinks its table."""

    def __init__(self, hash_code: Callable[[T], int]) -> None:
        self._hash_code = hash_code
        self._capacity = _DEFAULT_CAPACITY
        self._elements: dict[T, None] = {}

    def __bool__(self) -> bool:
        return bool(self._elements)

    def add(self, element: T) -> None:
        """Add `element`."""
        self._elements[element] = None
        if len(self._elements) * 4 > self._capacity * 3:
            self._capacity *= 2

    def remove(self, element: T) -> None:
        """Remove `element`. Raises KeyError if it is missing."""
        del self._elements[element]

    def first(self) -> T:
        """Return the element that comes first."""
        return hash_map_order(self._elements, self._hash_code, capacity=self._capacity)[0]
