"""`pk isr`: which replicas are in sync, and how far behind the others are."""

from collections.abc import Mapping
from datetime import date
from typing import Any

import trio

from pk.cli.cluster.out_of_sync_since import Witness, witnesses
from pk.cli.cluster.partition_selection import ailing, chosen, needed_replicas, tell_none
from pk.cli.cluster.replicas import (
    CONSUMER,
    DEBUGGING_REPLICA,
    About,
    Ends,
    ask_latest,
    by_broker,
    lags,
    show_behind,
)
from pk.cli.cluster.topics import Partitions, leader_of, partition_style
from pk.cli.output.formats import Column, Listing
from pk.cli.positions.times import show_time
from pk.cli.runtime.context import Context
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin


def show_since(since: str | None) -> str:
    """A time for people: without the day where that is today."""
    if not since:
        return "-"
    return since[11:19] if since[:10] == date.today().isoformat() else since[:16].replace("T", " ")


_ISR = (
    Column("topic"),
    Column("partition", right=True, title="PART"),
    Column("leader", right=True),
    Column("leader_epoch", right=True, wide=True, title="EPOCH"),
    Column("replicas"),
    Column("isr", title="ISR"),
    Column("in_sync", right=True, wide=True),
    Column("out_of_sync", title="OUT"),
    Column("since", show=show_since),
    Column("behind", show=show_behind),
    Column("elr", wide=True, title="ELR"),
    Column("last_known_elr", title="LAST KNOWN ELR", wide=True),
    Column("log_end_offset", right=True, title="LEO"),
    Column("high_watermark", right=True, wide=True, title="HW"),
    Column("lag_max", right=True, wide=True),
    Column("estimated", wide=True),
    Column("log_end_offsets", title="LEO OF EACH", wide=True),
    Column("offline_replicas", wide=True, title="OFFLINE"),
)


async def isr(context: Context) -> int | None:
    """`pk isr`."""
    args = context.args
    admin = await context.admin()
    if args.watch:
        from pk.cli.nouns.isr.watch import watch

        return await watch(context, admin)
    partitions = await chosen(context, admin)
    wanted = ailing(partitions, args, await needed_replicas(admin, args, partitions))
    if not wanted:
        tell_none(context, partitions)
    rows = await isr_rows(context, admin, wanted)
    context.show(Listing(_ISR, rows, partition_style))
    return None


async def isr_rows(context: Context, admin: Admin, wanted: Partitions) -> list[dict[str, Any]]:
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
) -> dict[str, Any]:
    """What is known of one partition; `seen` is what is known of the replicas that are out of sync."""
    leo = ends.get(p.leader_id)
    behind = lags(tp, p, ends, seen, [b for b in p.replicas if b != p.leader_id])
    out = [b for b in p.replicas if b not in p.isr]
    times = [w.since_ms for b in out if (w := seen.get((tp, b))) and w.since_ms is not None]
    known = [lag for lag in (behind or {}).values() if lag is not None]
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "leader": leader_of(p),
        "leader_epoch": p.leader_epoch,
        "replicas": list(p.replicas),
        "isr": list(p.isr),
        "in_sync": len(p.isr),
        "out_of_sync": out,
        "since": show_time(min(times)) if times else None,
        "elr": None if p.elr is None else list(p.elr),
        "last_known_elr": None if p.last_known_elr is None else list(p.last_known_elr),
        "log_end_offset": leo,
        "high_watermark": hw,
        "behind": behind,
        "lag_max": max(known, default=None if leo is None else 0),
        "estimated": [int(b) for b, lag in (behind or {}).items() if isinstance(lag, About)],
        "log_end_offsets": {str(b): ends.get(b) for b in p.replicas},
        "offline_replicas": list(p.offline_replicas),
    }
