"""The answers of an operation on many items: a value or an error for each."""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Answers(Generic[K, V]):
    """The value of each item of an operation, or its error if it failed: `KafkaError`,
    `ClientError` or `ProtocolError`. The value is None for an operation whose only result is
    success.

    Iteration, `len` and `in` are over the items, in the order in which they were added.
    """

    __slots__ = ("_items", "errors", "ok")

    def __init__(self, answers: Iterable[tuple[K, V | Exception]] = ()) -> None:
        self.ok: dict[K, V] = {}
        """The values of the items that did not fail."""
        self.errors: dict[K, Exception] = {}
        """The errors of the items that failed."""
        self._items: dict[K, None] = {}
        for item, answer in answers:
            self.add(item, answer)

    def add(self, item: K, answer: V | Exception) -> None:
        """Add the answer of an item, or replace it. An exception is the item's error."""
        self._items[item] = None
        if isinstance(answer, Exception):
            self.errors[item] = answer
            self.ok.pop(item, None)
        else:
            self.ok[item] = answer
            self.errors.pop(item, None)

    def update(self, other: "Answers[K, V]") -> None:
        """Add all answers of another operation."""
        for item in other:
            self.add(item, other.errors[item] if item in other.errors else other.ok[item])

    def of(self, items: Iterable[K], missing: Callable[[K], V | Exception]) -> "Answers[K, V]":
        """Return the answers of these items, in their order. `missing` makes the answer of an item
        that has none."""
        found: Answers[K, V] = Answers()
        for item in items:
            if item in self.errors:
                found.add(item, self.errors[item])
            else:
                found.add(item, self.ok[item] if item in self.ok else missing(item))
        return found

    def value(self, item: K) -> V:
        """Return the value of an item. Raises the item's error if it failed, and KeyError for an
        unknown item."""
        if item in self.errors:
            raise self.errors[item]
        return self.ok[item]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"Answers(ok={self.ok!r}, errors={self.errors!r})"
