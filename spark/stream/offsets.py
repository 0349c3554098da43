"""A query's progress, in the JSON that Spark stores in the query's checkpoint.

    {"orders": {"0": 23, "1": 7}, "@ids": {"orders": "Zx…"},
     "@start": {"orders": {"0": 20, "1": 7}}}

Topics and partitions have the same form as in Spark's own Kafka source, so that programs that read
a query's progress still work; names of topics cannot contain an @. `@ids` distinguishes a topic
from a later one with the same name.

Spark asks for the initial offset several times, stores none of the answers, and asks again after a
restart during the first batch: "latest" would be another offset each time, and the records in
between would be lost. So the initial offset is `{}`, which means the start that the options name,
and the end of the first batch also contains the resolved start, in `@start`.

Spark compares offsets as text, so equal offsets must have the same text: topics and partitions are
sorted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pk.core.values import TopicPartition, Uuid, uuid_from_text, uuid_text
from pk.spark.errors import SparkError

_IDS = "@ids"
_START = "@start"


class WrongOffset(SparkError):
    """The checkpoint contains an offset that this source did not write."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next offset to read in each partition. Without positions it is the start that the options
    name."""

    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    ids: Mapping[str, Uuid] = field(default_factory=dict)
    """The topics' ids, except those of brokers that are too old to send them."""

    start: Mapping[TopicPartition, int] | None = None
    """The start of the first batch; set only in the offset of that batch's end."""

    @property
    def is_initial(self) -> bool:
        return not self.positions

    def json(self) -> dict[str, Any]:
        """The value that Spark stores."""
        found: dict[str, Any] = _by_topic(self.positions)
        if self.ids:
            found[_IDS] = {name: uuid_text(self.ids[name]) for name in sorted(self.ids)}
        if self.start is not None:
            found[_START] = _by_topic(self.start)
        return found

    @classmethod
    def parse(cls, value: object) -> "StreamOffset":
        """Parse the value that Spark passes. Raises WrongOffset."""
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
