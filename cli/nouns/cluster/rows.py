"""The rows of `pk cluster`."""

from typing import Annotated, TypedDict

from pk.cli.cluster.broker_rows import BrokerOfCluster
from pk.cli.output.amounts import show_count
from pk.cli.output.rows import Shown
from pk.cli.positions.times import show_span


def _show_ago(ms: int) -> str:
    return f"{show_span(ms)} ago"


class DescribedCluster(TypedDict):
    """A cluster with its brokers."""

    cluster_id: str | None
    controller_id: int | None
    topics: int
    partitions: int
    under_replicated: int
    offline: int
    brokers: list[BrokerOfCluster]


class CheckRow(TypedDict):
    """A check of `pk cluster health`."""

    check: Annotated[str, Shown(word=True)]
    state: Annotated[str, Shown(word=True)]
    what: str
    fix: str | None


class HealthOfCluster(TypedDict):
    """The result of all checks."""

    healthy: bool | None
    """None if there is no error, but not everything could be checked."""

    errors: int
    warnings: int
    checks: list[CheckRow]


class NodeRow(TypedDict):
    """A node of the metadata quorum. Times are in ms."""

    node: int
    role: str
    log_end_offset: Annotated[int | None, Shown("LOG END")]
    lag: Annotated[int | None, Shown(show=show_count)]
    caught_up_ms: Annotated[int | None, Shown("CAUGHT UP", show=_show_ago)]
    fetched_ms: Annotated[int | None, Shown("FETCHED", show=_show_ago)]
    applied_offset: Annotated[int | None, Shown("APPLIED")]
    endpoints: Annotated[list[str], Shown(wide=True)]
    directory_id: Annotated[str | None, Shown(wide=True)]


class QuorumOfCluster(TypedDict):
    """The metadata quorum and its nodes."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    high_watermark: int
    lag_max: Annotated[int | None, Shown(show=show_count)]
    snapshot_offset: int | None
    snapshot_age_ms: int | None
    nodes: list[NodeRow]


class FeatureRow(TypedDict):
    """A feature: the current level, and the levels that every broker supports."""

    feature: str
    level: Annotated[int, Shown("FINALIZED")]
    name: str | None
    min_supported: Annotated[int | None, Shown("MIN")]
    max_supported: Annotated[int | None, Shown("MAX")]
    epoch: Annotated[int | None, Shown(wide=True)]
    note: str | None


class RestoredRow(TypedDict):
    """A partition of a lost cluster, in `pk cluster restore`. The offsets are the first and the
    last in the store."""

    topic: str
    partition: int
    start_offset: Annotated[int | None, Shown("FIRST OFFSET")]
    end_offset: Annotated[int | None, Shown("LAST OFFSET")]
    segments: Annotated[int, Shown(show=show_count)]
    size: Annotated[int, Shown("BYTES")]
    topic_id: Annotated[str | None, Shown(wide=True)]
    cluster_ids: Annotated[list[str], Shown(wide=True)]
    damaged: Annotated[list[str], Shown("DAMAGED OBJECTS", wide=True)]
    note: str | None
    result: str
    error: Annotated[str | None, Shown(wide=True)]


FeatureChange = TypedDict(
    "FeatureChange",
    {
        "feature": str,
        "from": int,
        "to": int,
        "result": str,
        "error": Annotated[str | None, Shown(wide=True)],
    },
)
"""A feature whose level was changed; the syntax is this one because `from` is a keyword of
Python."""
