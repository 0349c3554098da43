"""The partitions that a command applies to: by topic, and by filters such as --under-replicated."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pk.cli.cluster.groups import selected
from pk.cli.cluster.min_isr import min_isrs
from pk.cli.cluster.topics import (
    Partitions,
    check_partitions,
    describe_topics,
    existing_topics,
    named_topics,
)
from pk.cli.exits import Unusable
from pk.cli.phrases import count, join, partition_name
from pk.cli.positions.grammar import Positions
from pk.cli.runtime.context import Context
from pk.cli.runtime.name_cache import remember
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.results import PartitionDescription, TopicDescription

if TYPE_CHECKING:
    from pk.cli.options.option_sets import PartitionFilters


async def partitions_of(
    context: Context,
    admin: Admin,
    topics: Sequence[str],
    wanted: "PartitionFilters",
    *,
    internal: bool,
) -> Partitions:
    """The partitions of topics, by name or pattern. Without names, those of all topics. Internal
    topics are included only with `internal`, or if `wanted` selects partitions with a problem."""
    names = await named_topics(context, admin, topics) if topics else None
    described = await describe_topics(context, admin, names)
    if names is None and not internal and not filters(wanted):
        described = [t for t in described if not t.internal]
    found = {TopicPartition(t.name, p.partition): p for t in described for p in t.partitions}
    if names is None:
        remember(context.settings.bootstrap, "partition", map(partition_name, found))
    return found


def filters(wanted: "PartitionFilters") -> bool:
    """Whether any filter is given."""
    return wanted.under_replicated or wanted.offline or wanted.under_min_isr or wanted.at_min_isr


def say_none(context: Context, partitions: Partitions, wanted: "PartitionFilters") -> None:
    """Say on a terminal that no partition passed the filters: an empty table could look like an
    error."""
    if not context.streams.out_terminal or not filters(wanted):
        return
    given = {
        "under-replicated": wanted.under_replicated,
        "without a leader": wanted.offline,
        "under its min.insync.replicas": wanted.under_min_isr,
        "at its min.insync.replicas": wanted.at_min_isr,
    }
    state = " or ".join(words for words, asked in given.items() if asked)
    context.say(f"None of {count(len(partitions), 'partition')} is {state}.")


async def needed_replicas(
    admin: Admin, wanted: "PartitionFilters", partitions: Iterable[TopicPartition]
) -> dict[str, int]:
    """min.insync.replicas by topic, if a filter needs it."""
    if not (wanted.under_min_isr or wanted.at_min_isr):
        return {}
    return await min_isrs(admin, (tp.topic for tp in partitions))


def filtered(
    partitions: Partitions, wanted: "PartitionFilters", min_isr: Mapping[str, int]
) -> Partitions:
    """The partitions that match any of the given filters, or all partitions if none is given."""
    if not filters(wanted):
        return partitions
    return {tp: p for tp, p in partitions.items() if matches(p, wanted, min_isr.get(tp.topic, 1))}


def matches(p: PartitionDescription, wanted: "PartitionFilters", min_isr: int) -> bool:
    """Whether any of the given filters holds for a partition."""
    return (
        (wanted.under_replicated and p.under_replicated)
        or (wanted.offline and p.leader_id < 0)
        or (wanted.under_min_isr and len(p.isr) < min_isr)
        or (wanted.at_min_isr and len(p.isr) == min_isr)
    )


def parse_partition(text: str, option: str) -> TopicPartition:
    """Parse `orders/0` or `orders:0`. Raises Unusable."""
    topic, _, number = text.replace(":", "/").rpartition("/")
    if not topic or not number.isdecimal():
        raise Unusable(f"{option} needs a partition such as orders/0, not {text!r}.")
    return TopicPartition(topic, int(number))


def partitions_at(
    topics: Iterable[TopicDescription], numbers: Iterable[int] | None, positions: Positions | None
) -> list[TopicPartition]:
    """The partitions of `topics` that are selected by number, or else those that `positions` name,
    or else all.

    Raises CommandError for a partition that does not exist, and Unusable for one that has a
    position and is not selected: no position is ignored silently.
    """
    chosen = list(numbers or ())
    named = sorted(positions.by_partition) if positions is not None else []
    found: list[TopicPartition] = []
    for topic in topics:
        check_partitions(topic, named)
        found += check_partitions(topic, chosen or named or [p.partition for p in topic.partitions])
    unused = [number for number in named if chosen and number not in chosen]
    if unused:
        raise Unusable(
            f"The position of partition {unused[0]} has no effect: only partition "
            f"{join([str(n) for n in sorted(chosen)])} is selected."
        )
    if chosen and named:
        found = [tp for tp in found if tp.partition in named]
    return found


async def partitions_named(
    context: Context, admin: Admin, words: Sequence[str], *, internal: bool = False
) -> list[TopicPartition]:
    """The partitions that `words` name (`orders`, `orders:0,1`); without words, those of all
    topics, including internal topics only with `internal`.

    Raises CommandError for a topic or partition that does not exist.
    """
    wanted = selected(words)
    if not wanted:
        topics = await describe_topics(context, admin, None)
        return [
            TopicPartition(t.name, p.partition)
            for t in topics
            if internal or not t.internal
            for p in t.partitions
        ]
    found: list[TopicPartition] = []
    for topic in await existing_topics(context, admin, wanted):
        numbers = wanted[topic.name]
        every = [p.partition for p in topic.partitions]
        found += check_partitions(topic, every if numbers is None else numbers)
    return found
