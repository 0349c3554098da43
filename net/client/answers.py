"""The answers of an operation on many items: a value or an error for each."""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Answers(dict[K, V | Exception], Generic[K, V]):
    """Item → its value, or the error of an item that failed: `KafkaError`, `ClientError` or
    `ProtocolError`. The value is None for an operation whose only result is success."""

    @property
    def ok(self) -> dict[K, V]:
        """The values of the items that did not fail."""
        return {item: each for item, each in self.items() if not isinstance(each, Exception)}

    @property
    def errors(self) -> dict[K, Exception]:
        """The errors of the items that failed."""
        return {item: each for item, each in self.items() if isinstance(each, Exception)}

    def value(self, item: K) -> V:
        """The value of an item. Raises its error if it failed, and KeyError for another item."""
        found = self[item]
        if isinstance(found, Exception):
            raise found
        return found
