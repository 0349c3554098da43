"""How a plan is carried out: with which throttle, how many partitions move at the same time, and
whether the command waits."""

from collections.abc import Mapping
from typing import NamedTuple

from pk.cli.nouns.reassign.option_values import parse_rate
from pk.cli.nouns.reassign.pace import AUTO, START_RATE
from pk.core.values import TopicPartition


class Throttle(NamedTuple):
    """The value of --throttle."""

    rate: int | None = None
    """The rate at the start, in bytes per second; None without a throttle."""

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
    """The most partitions that move at the same time; None for all."""

    detach: bool = False
    """Whether a background process watches the moves instead of this command."""

    directories: Mapping[tuple[TopicPartition, int], str] = {}
    """(partition, broker) → the log directory that its replica must go to."""
