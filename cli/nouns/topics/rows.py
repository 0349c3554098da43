"""The rows of `pk topics`."""

from typing import Annotated, NotRequired, TypedDict

from pk.cli.cluster.altered_config import AlteredValue
from pk.cli.cluster.partition_rows import LedPartition, ReplicatedPartition
from pk.cli.output.amounts import show_count
from pk.cli.output.rows import Shown


class TopicRow(TypedDict):
    """A topic in `pk topics list`."""

    topic: str
    partitions: int
    replication_factor: Annotated[int, Shown("REPLICAS")]
    internal: Annotated[bool, Shown(wide=True)]
    topic_id: Annotated[str | None, Shown(wide=True)]


class _OfTopic(TypedDict):
    topic: str


class _Number(TypedDict):
    partition: int


class PartitionOfTopic(_Number, LedPartition, ReplicatedPartition):
    """A partition in the description of its topic."""

    under_replicated: Annotated[bool, Shown(wide=True)]


class PartitionRow(_OfTopic, PartitionOfTopic):
    """A partition in `pk topics describe`, if partitions are listed one by one."""


class ConfigOfTopic(TypedDict):
    """A config in the description of its topic."""

    name: str
    value: str | None
    source: Annotated[str, Shown(word=True)]


class TiersOfPartition(TypedDict):
    """The location of a partition's records, in the description of a topic with tiered storage. The
    remote offsets are the first and the last in the store, null if it has none. The local offsets
    are the leader's first offset and its log end. A partition that did not answer has an `error`
    instead."""

    partition: int
    remote_start: int | None
    remote_last: int | None
    local_start: int | None
    local_end: int | None
    error: Annotated[str | None, Shown(wide=True)]


class DescribedTopic(TypedDict):
    """A topic in `pk topics describe`. `tiers` is present only with remote.storage.enable=true."""

    topic: str
    topic_id: str | None
    internal: bool
    partition_count: int
    replication_factor: int
    partitions: list[PartitionOfTopic]
    configs: list[ConfigOfTopic]
    tiers: NotRequired[list[TiersOfPartition]]


class CreatedRow(TypedDict):
    """A topic in `pk topics create`. The numbers of partitions and replicas are those that the
    broker reports, if it does."""

    topic: str
    partitions: int | None
    replication_factor: Annotated[int | None, Shown("REPLICAS")]
    result: Annotated[str, Shown(word=True)]
    topic_id: Annotated[str | None, Shown(wide=True)]
    error: Annotated[str | None, Shown(wide=True)]


class AlteredRow(_OfTopic, AlteredValue):
    """A config of a topic, or its number of partitions (`name` is then `partitions`), in `pk topics
    alter`."""


class DeletedRow(TypedDict):
    """A topic in `pk topics delete`."""

    topic: str
    result: Annotated[str, Shown(word=True)]
    error: Annotated[str | None, Shown(wide=True)]


GrownRow = TypedDict(
    "GrownRow",
    {
        "topic": str,
        "from": int,
        "to": int,
        "result": str,
        "error": Annotated[str | None, Shown(wide=True)],
    },
)
"""A topic in `pk topics add-partitions`: its number of partitions before and after."""


class TrimmedRow(TypedDict):
    """A partition in `pk topics trim`. `records` counts offsets, of which some may have no
    record."""

    topic: str
    partition: int
    start: int | None
    target: Annotated[int | None, Shown("TO")]
    end: int | None
    records: Annotated[int | None, Shown("LOST", show=show_count)]
    note: str | None
    result: Annotated[str, Shown(word=True)]
    error: Annotated[str | None, Shown(wide=True)]


class _Offsets(TypedDict):
    """`offsets` is the number of offsets from `start` to `end`. Those of compacted records and
    transaction markers have no record. A partition whose leader did not answer has an `error`
    instead."""

    topic: str
    partition: int
    start: int | None
    end: int | None
    offsets: Annotated[int | None, Shown(show=show_count)]


class _Epoch(TypedDict):
    leader_epoch: Annotated[int | None, Shown(wide=True)]
    error: Annotated[str | None, Shown(wide=True)]


class OffsetsRow(_Offsets, _Epoch):
    """A partition in `pk topics offsets`."""


class _Range(TypedDict):
    begin: int | None
    until: int | None


class PositionRow(_Offsets, _Range, _Epoch):
    """A partition in `pk topics offsets` with -o or --time. The requested offsets are `begin` and,
    for a range, `until`."""
