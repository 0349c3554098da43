"""The progress of a query, as the JSON that Spark keeps in the query's checkpoint.

    {"orders": {"0": 23, "1": 7}, "@ids": {"orders": "Zx…"},
     "@start": {"orders": {"0": 20, "1": 7}}}

Topics and partitions are as Spark's own Kafka source writes them, so programs that read a query's
progress keep working; no topic's name contains an @. `@ids` distinguishes a topic from a later one
of the same name.

Spark asks for the initial offset more than once, keeps none of the answers, and asks again after a
restart inside the first batch: "latest" would then be another offset each time, and records in
between would be lost. So the initial offset is `{}`, "where the options say", and the end of the
first batch also holds the start that this meant, in `@start`.

Spark compares offsets as text: equal ones must be written equally. So topics and partitions are in
order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pk.core.values import TopicPartition, Uuid, uuid_from_text, uuid_text
from pk.spark.errors import SparkError

_IDS = "@ids"
_START = "@start"


class WrongOffset(SparkError):
    """The checkpoint holds an offset that this source did not write."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Each partition's next offset to read. Without any it is the beginning that the options
    name."""

    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    ids: Mapping[str, Uuid] = field(default_factory=dict)
    """The topics' ids; without those of brokers that are too old to send them."""

    start: Mapping[TopicPartition, int] | None = None
    """The start of the first batch, in the offset of its end."""

    @property
    def is_initial(self) -> bool:
        return not self.positions

    def json(self) -> dict[str, Any]:
        """The value for Spark to keep."""
        found: dict[str, Any] = _by_topic(self.positions)
        if self.ids:
            found[_IDS] = {name: uuid_text(self.ids[name]) for name in sorted(self.ids)}
        if self.start is not None:
            found[_START] = _by_topic(self.start)
        return found

    @classmethod
    def parse(cls, value: object) -> "StreamOffset":
        """The offset that Spark hands back. Raises WrongOffset."""
        try:
            given: dict[str, Any] = dict(value)  # type: ignore[call-overload]
            ids = {str(name): uuid_from_text(text) for name, text in given.pop(_IDS, {}).items()}
            start = given.pop(_START, None)
            return cls(_positions(given), ids, None if start is None else _positions(start))
        except (TypeError, ValueError, AttributeError):
            raise WrongOffset(
                f"the checkpoint holds an offset that the source pk did not write: {value!r};"
                " a query that moves from another source needs a new checkpoint"
            ) from None


def _by_topic(positions: Mapping[TopicPartition, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for tp in sorted(positions):
        found.setdefault(tp.topic, {})[str(tp.partition)] = positions[tp]
    return found


def _positions(value: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in value.items()
        for partition, offset in partitions.items()
    }
