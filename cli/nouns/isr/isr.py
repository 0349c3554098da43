"""`pk isr`: shows which replicas are in sync, and how far behind the others are."""

from collections.abc import Mapping

import trio

from pk.cli.cluster.out_of_sync_since import Witness, witnesses
from pk.cli.cluster.partition_rows import partition_fields
from pk.cli.cluster.partition_selection import filtered, needed_replicas, partitions_of, say_none
from pk.cli.cluster.replica_lag import About
from pk.cli.cluster.replicas import CONSUMER, DEBUGGING_REPLICA, Ends, ask_latest, by_broker, lags
from pk.cli.cluster.topics import Partitions, partition_style
from pk.cli.cluster.unclean_recovery import lines, recoveries
from pk.cli.nouns.isr.options import InSyncReplicas
from pk.cli.nouns.isr.rows import InSyncRow
from pk.cli.output.rows import listing
from pk.cli.positions.times import show_time
from pk.cli.runtime.context import Context
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin


async def isr(context: Context, options: InSyncReplicas) -> int | None:
    """Run `pk isr`."""
    admin = await context.admin()
    if options.watch:
        from pk.cli.nouns.isr.watch import watch

        return await watch(context, admin, options, options.interval.s)
    partitions = await partitions_of(
        context, admin, options.topic, options, internal=options.internal
    )
    wanted = filtered(partitions, options, await needed_replicas(admin, options, partitions))
    if not wanted:
        say_none(context, partitions, options)
    rows = await isr_rows(context, admin, wanted)
    leaderless = [tp for tp, p in wanted.items() if p.leader_id < 0]
    if leaderless:
        for line in lines(await recoveries(admin, leaderless)):
            context.say(line)
    context.show(listing(InSyncRow, rows, partition_style))
    return None


async def isr_rows(context: Context, admin: Admin, wanted: Partitions) -> list[InSyncRow]:
    """A row for each partition."""
    ends: Ends = {}
    watermarks: Ends = {}
    by_leader: dict[int, list[TopicPartition]] = {}
    for tp, p in wanted.items():
        if p.leader_id >= 0:
            by_leader.setdefault(p.leader_id, []).append(tp)
    failed: dict[int, Exception] = {}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_latest, admin, by_leader, CONSUMER, watermarks, failed)
        nursery.start_soon(ask_latest, admin, by_broker(wanted), DEBUGGING_REPLICA, ends, failed)
    for broker, error in sorted(failed.items()):
        context.failed(error, f"broker {broker}")
    behind = {tp: p for tp, p in wanted.items() if p.under_replicated}
    seen = await witnesses(admin, behind, ends) if behind else {}
    return [
        isr_row(tp, p, watermarks.get(tp, {}).get(p.leader_id), ends.get(tp, {}), seen)
        for tp, p in wanted.items()
    ]


def isr_row(
    tp: TopicPartition,
    p: r.PartitionDescription,
    hw: int | None,
    ends: Mapping[int, int],
    seen: Mapping[tuple[TopicPartition, int], Witness] = {},
) -> InSyncRow:
    """The row of one partition; `seen` has what is known about the replicas that are out of
    sync."""
    leo = ends.get(p.leader_id)
    behind = lags(tp, p, ends, seen, [b for b in p.replicas if b != p.leader_id])
    out = [b for b in p.replicas if b not in p.isr]
    times = [w.since_ms for b in out if (w := seen.get((tp, b))) and w.since_ms is not None]
    known = [lag for lag in (behind or {}).values() if lag is not None]
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        **partition_fields(p),
        "in_sync": len(p.isr),
        "out_of_sync": out,
        "since": show_time(min(times)) if times else None,
        "log_end_offset": leo,
        "high_watermark": hw,
        "behind": behind,
        "lag_max": max(known, default=None if leo is None else 0),
        "estimated": [int(b) for b, lag in (behind or {}).items() if isinstance(lag, About)],
        "log_end_offsets": {str(b): ends.get(b) for b in p.replicas},
    }
