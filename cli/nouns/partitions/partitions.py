"""`pk partitions list`: lists partitions by health, leader and broker."""

from pk.cli.cluster.brokers import parse_brokers
from pk.cli.cluster.min_isr import min_isrs
from pk.cli.cluster.partition_rows import partition_fields
from pk.cli.cluster.partition_selection import filtered, partitions_of, say_none
from pk.cli.cluster.topics import Partitions, partition_style
from pk.cli.nouns.partitions.options import ListPartitions
from pk.cli.nouns.partitions.rows import PartitionStateRow
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context
from pk.core.values import TopicPartition
from pk.net.client import results as r


def state_of(p: r.PartitionDescription, min_isr: int | None) -> str:
    """The worst state of a partition, in a word or two."""
    if p.leader_id < 0:
        return "offline"
    if min_isr is not None and len(p.isr) < min_isr:
        return "under min ISR"
    if p.under_replicated:
        at = min_isr is not None and len(p.isr) == min_isr
        return "at min ISR" if at else "under-replicated"
    if p.replicas and p.leader_id != p.replicas[0]:
        return "not preferred"
    return "healthy"


def partition_row(
    tp: TopicPartition, p: r.PartitionDescription, min_isr: int | None
) -> PartitionStateRow:
    """The row of one partition."""
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        **partition_fields(p),
        "preferred_leader": p.replicas[0] if p.replicas else None,
        "min_isr": min_isr,
        "state": state_of(p, min_isr),
        "out_of_sync": [b for b in p.replicas if b not in p.isr],
    }


def _led(partitions: Partitions, options: ListPartitions) -> Partitions:
    """The partitions that match --leader, --broker and --not-preferred."""
    leaders = parse_brokers(options.leader, "--leader")
    brokers = parse_brokers(options.broker, "--broker")
    return {
        tp: p
        for tp, p in partitions.items()
        if (not leaders or p.leader_id in leaders)
        and (not brokers or set(brokers) & set(p.replicas))
        and (not options.not_preferred or (p.replicas and p.leader_id != p.replicas[0]))
    }


async def list_partitions(context: Context, options: ListPartitions) -> None:
    """Run `pk partitions list`."""
    admin = await context.admin()
    every = await partitions_of(context, admin, options.topic, options, internal=options.internal)
    partitions = _led(every, options)
    min_isr = await min_isrs(admin, (tp.topic for tp in partitions))
    wanted = filtered(partitions, options, min_isr)
    if not wanted:
        say_none(context, partitions, options)
    rows = [partition_row(tp, p, min_isr.get(tp.topic)) for tp, p in wanted.items()]
    context.show(listing(PartitionStateRow, rows, partition_style))
