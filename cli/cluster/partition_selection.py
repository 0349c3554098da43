"""Which partitions a command is about: topics by name or pattern, and the filters of health that `isr` and `partitions
list` share."""

from collections.abc import Iterable, Mapping
from typing import Any

from pk.cli.cluster.min_isr import min_isrs
from pk.cli.cluster.topics import Partitions, describe_topics, named_topics
from pk.cli.command_line.completion.name_cache import remember
from pk.cli.runtime.context import Context, count, place_name
from pk.cli.runtime.exits import Unusable
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin


async def chosen(context: Context, admin: Admin) -> Partitions:
    """The partitions of the topics that the command names, else of all that are not internal; unfiltered."""
    args = context.args
    names = await named_topics(context, admin, args.topic) if args.topic else None
    topics = await describe_topics(context, admin, names)
    if names is None and not args.internal:
        topics = [t for t in topics if not t.internal]
    found = {TopicPartition(t.name, p.partition): p for t in topics for p in t.partitions}
    if names is None:
        remember(context.settings.bootstrap, "partition", map(place_name, found))
    return found


def filters(args: Any) -> bool:
    """Whether the command wants only partitions that something ails."""
    return bool(args.under_replicated or args.offline or args.under_min_isr or args.at_min_isr)


def tell_none(context: Context, partitions: Partitions) -> None:
    """Says on a terminal that the filters left nothing: an empty table might as well be a mistake."""
    args = context.args
    if not context.streams.out_terminal or not filters(args):
        return
    words = {
        "under_replicated": "under-replicated",
        "offline": "without a leader",
        "under_min_isr": "under its min.insync.replicas",
        "at_min_isr": "at its min.insync.replicas",
    }
    asked = " or ".join(said for name, said in words.items() if args.values()[name])
    context.say(f"None of {count(len(partitions), 'partition')} is {asked}.")


async def needed_replicas(
    admin: Admin, args: Any, partitions: Iterable[TopicPartition]
) -> dict[str, int]:
    """min.insync.replicas by topic, where a filter wants it."""
    if not (args.under_min_isr or args.at_min_isr):
        return {}
    return await min_isrs(admin, (tp.topic for tp in partitions))


def ailing(partitions: Partitions, args: Any, min_isr: Mapping[str, int]) -> Partitions:
    """The partitions that any of the filters given holds for; all of them where none is given."""
    if not filters(args):
        return partitions
    return {
        tp: p
        for tp, p in partitions.items()
        if (args.under_replicated and p.under_replicated)
        or (args.offline and p.leader_id < 0)
        or (args.under_min_isr and len(p.isr) < min_isr.get(tp.topic, 1))
        or (args.at_min_isr and len(p.isr) == min_isr.get(tp.topic, 1))
    }


def parse_partition(text: str, option: str) -> TopicPartition:
    """`orders/0` or `orders:0`. Raises Unusable."""
    topic, _, number = text.replace(":", "/").rpartition("/")
    if not topic or not number.isdecimal():
        raise Unusable(f"{option} wants a partition such as orders/0, not {text!r}.")
    return TopicPartition(topic, int(number))
