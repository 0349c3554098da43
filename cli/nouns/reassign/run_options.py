"""How a plan is carried out: its throttle, how many partitions move at once, and whether the
command stays."""

from collections.abc import Mapping
from typing import NamedTuple

from pk.cli.nouns.reassign.option_values import parse_rate
from pk.cli.nouns.reassign.pace import AUTO, START_RATE
from pk.core.values import TopicPartition


class Throttle(NamedTuple):
    """The value of --throttle."""

    rate: int | None = None
    """Bytes a second to start with; None without a throttle."""

    auto: bool = False
    """Whether the rate changes while replicas are copied."""


def parse_throttle(text: str | None) -> Throttle:
    """The value of --throttle. Raises Unusable."""
    if text is None:
        return Throttle()
    if text == AUTO:
        return Throttle(START_RATE, auto=True)
    return Throttle(parse_rate(text, "--throttle"))


class RunOptions(NamedTuple):
    """How a plan is carried out."""

    throttle: Throttle = Throttle()
    batch: int | None = None
    """The most partitions that move at once; None for all."""

    detach: bool = False
    """Whether a background process watches instead of this command."""

    directories: Mapping[tuple[TopicPartition, int], str] = {}
    """(partition, broker) → the log directory that its replica must go to."""
