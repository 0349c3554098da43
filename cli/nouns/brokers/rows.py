"""The rows of `pk brokers`."""

from typing import Annotated, TypedDict

from pk.cli.cluster.broker_rows import BrokerRow
from pk.cli.output.amounts import show_bytes, show_count
from pk.cli.output.rows import Shown


class FeatureOfBroker(TypedDict):
    """A feature that a broker supports, and the level that the cluster has finalized."""

    feature: str
    finalized: int
    min_supported: Annotated[int, Shown("MIN")]
    max_supported: Annotated[int, Shown("MAX")]


class LogDirRow(TypedDict):
    """A log directory of a broker."""

    broker: int
    path: str
    state: Annotated[str, Shown(word=True)]
    replicas: Annotated[int, Shown(show=show_count)]
    bytes: Annotated[int, Shown(show=show_bytes)]
    total_bytes: Annotated[int | None, Shown("DISK", show=show_bytes)]
    usable_bytes: Annotated[int | None, Shown("USABLE", show=show_bytes)]
    used_percent: Annotated[int | None, Shown("USED", show=lambda percent: f"{percent}%")]
    arriving: Annotated[int, Shown(wide=True)]


class ReplicaRow(TypedDict):
    """A replica in a log directory."""

    broker: int
    path: Annotated[str, Shown(wide=True)]
    topic: str
    partition: int
    bytes: Annotated[int, Shown(show=show_bytes)]
    offset_lag: Annotated[int, Shown("LAG", show=show_count)]
    remote_bytes: Annotated[int | None, Shown("REMOTE", show=show_bytes, wide=True)]
    """The bytes of a tiered partition that are in remote storage, at its leader; None for other
    replicas."""
    arriving: bool


def _show_source(source: str) -> str:
    from pk.cli.config_keys.sources import source_word

    return source_word(source)


class ConfigOfBroker(TypedDict):
    """A config that is set on the broker itself."""

    config: str
    value: str | None
    source: Annotated[str, Shown(show=_show_source, word=True)]


class DescribedBroker(BrokerRow):
    """A broker with its features, log directories and own configs."""

    features: list[FeatureOfBroker]
    log_dirs: list[LogDirRow]
    configs: list[ConfigOfBroker]
