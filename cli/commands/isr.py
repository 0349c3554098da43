"""`pk isr`: at a glance, what is replicated how far.

Where each replica's log ends is asked of the replica itself: ListOffsets with the replica id -2 ("debugging") is answered
by followers too, and with the log end instead of the high watermark. A broker that does not answer leaves a gap.
"""

from collections.abc import Iterable
from typing import Any

import trio

from pk.cli.commands.common import describe_topics, leader_of, partition_style
from pk.cli.context import Context
from pk.cli.output import Column, Listing, render
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError

_DEBUGGING_REPLICA = -2

Ends = dict[TopicPartition, dict[int, int]]
"""Partition → broker → the log end offset of the replica there."""


def _behind(lag: dict[str, int] | None) -> str:
    """The replicas that are behind, as broker:records."""
    if lag is None:
        return "-"
    return ",".join(f"{broker}:{behind}" for broker, behind in lag.items() if behind) or "0"


_ISR = (
    Column("topic"),
    Column("partition", right=True),
    Column("leader", right=True),
    Column("leader_epoch", right=True, title="EPOCH"),
    Column("replicas"),
    Column("isr", title="ISR"),
    Column("in_sync", right=True, wide=True),
    Column("out_of_sync", title="OUT"),
    Column("elr", title="ELR", wide=True),
    Column("log_end_offset", right=True, title="LEO"),
    Column("high_watermark", right=True, title="HW"),
    Column("behind", show=_behind),
    Column("offline_replicas", wide=True),
)


async def isr(context: Context) -> None:
    """`pk isr`."""
    args = context.args
    admin = await context.admin()
    if args.watch:
        await _watch(context, admin)
        return
    topics = await describe_topics(context, admin, args.topic or None)
    if not args.topic and not args.internal:
        topics = [t for t in topics if not t.internal]
    wanted = {
        TopicPartition(topic.name, p.partition): p
        for topic in topics
        for p in topic.partitions
        if not (args.under_replicated or args.offline)
        or (args.under_replicated and p.under_replicated)
        or (args.offline and p.leader_id < 0)
    }
    led = [tp for tp, p in wanted.items() if p.leader_id >= 0]
    watermarks = await admin.list_offsets(dict.fromkeys(led, r.LATEST)) if led else {}
    ends = await log_ends(admin, wanted)
    rows = []
    for tp, p in wanted.items():
        watermark = watermarks.get(tp)
        if isinstance(watermark, Exception):
            context.failed(watermark, str(tp))
        hw = watermark.offset if isinstance(watermark, r.ListedOffset) else None
        rows.append(_row(tp, p, hw, ends.get(tp, {})))
    context.show(Listing(_ISR, rows, partition_style))  # pyright: ignore[reportArgumentType]


def _row(
    tp: TopicPartition, p: r.PartitionDescription, hw: int | None, ends: dict[int, int]
) -> dict[str, Any]:
    leo = ends.get(p.leader_id)
    behind = None
    if leo is not None:
        behind = {
            str(b): max(leo - ends[b], 0) for b in p.replicas if b != p.leader_id and b in ends
        }
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "leader": leader_of(p),
        "leader_epoch": p.leader_epoch,
        "replicas": list(p.replicas),
        "isr": list(p.isr),
        "in_sync": len(p.isr),
        "out_of_sync": [b for b in p.replicas if b not in p.isr],
        "elr": None if p.elr is None else list(p.elr),
        "log_end_offset": leo,
        "high_watermark": hw,
        "behind": behind,
        "offline_replicas": list(p.offline_replicas),
    }


async def log_ends(
    admin: Admin, partitions: "dict[TopicPartition, r.PartitionDescription]"
) -> Ends:
    """Where the log of each replica ends, as far as its broker answers."""
    by_broker: dict[int, list[TopicPartition]] = {}
    for tp, p in partitions.items():
        for broker in p.replicas:
            if broker not in p.offline_replicas:
                by_broker.setdefault(broker, []).append(tp)
    ends: Ends = {}
    async with trio.open_nursery() as nursery:
        for broker, tps in by_broker.items():
            nursery.start_soon(_ask_ends, admin, broker, tps, ends)
    return ends


async def _ask_ends(admin: Admin, broker: int, tps: Iterable[TopicPartition], ends: Ends) -> None:
    from pk.core.wire.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

    topics: dict[str, ListOffsetsTopic] = {}
    for tp in tps:
        topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic))
        topic.partitions.append(
            ListOffsetsPartition(partition_index=tp.partition, timestamp=r.LATEST)
        )
    request = ListOffsetsRequest(replica_id=_DEBUGGING_REPLICA, topics=list(topics.values()))
    try:
        connection = await admin.cluster.connection(broker)
        response = await connection.request(request, low=1)
    except (ClientError, KafkaError):
        return
    for topic in response.topics:
        for p in topic.partitions:
            if p.error_code == 0:
                ends.setdefault(TopicPartition(topic.name, p.partition_index), {})[broker] = (
                    p.offset
                )


Watched = dict[TopicPartition, tuple[int, tuple[int, ...]]]
"""Partition → its leader and its in-sync replicas."""

_EVENTS = (
    Column("time"),
    Column("topic"),
    Column("partition", right=True),
    Column("event"),
    Column("brokers"),
    Column("leader", right=True),
    Column("isr", title="ISR"),
)
_WATCH_S = 1.0


def changes(before: Watched, now: Watched, time: str) -> list[dict[str, Any]]:
    """What happened between two looks: made, deleted, shrink, expand, leader, offline."""
    rows = []

    def add(
        tp: TopicPartition, event: str, brokers: Iterable[int], state: tuple[int, tuple[int, ...]]
    ) -> None:
        rows.append(
            {
                "time": time,
                "topic": tp.topic,
                "partition": tp.partition,
                "event": event,
                "brokers": sorted(brokers),
                "leader": state[0] if state[0] >= 0 else None,
                "isr": list(state[1]),
            }
        )

    for tp in sorted({*before, *now}):
        if tp not in before:
            add(tp, "made", now[tp][1], now[tp])
            continue
        if tp not in now:
            add(tp, "deleted", before[tp][1], (-1, ()))
            continue
        (old_leader, old), (leader, isr) = before[tp], now[tp]
        if left := set(old) - set(isr):
            add(tp, "shrink", left, now[tp])
        if joined := set(isr) - set(old):
            add(tp, "expand", joined, now[tp])
        if leader != old_leader:
            add(
                tp,
                "leader" if leader >= 0 else "offline",
                [leader] if leader >= 0 else [old_leader],
                now[tp],
            )
    return rows


async def _watch(context: Context, admin: Admin) -> None:
    """Shows changes until it is interrupted."""
    from pk.cli.resolve import now_ms
    from pk.cli.times import show_time

    args = context.args
    look = context.look
    if look.format == "json":
        look = look._replace(format="jsonl")
    context.write(render(Listing(_EVENTS, []), look))
    headed = look.format in ("table", "wide", "csv")
    before: Watched | None = None
    while True:
        described = await admin.describe_topics(args.topic or None)
        now: Watched = {
            TopicPartition(topic.name, p.partition): (p.leader_id, p.isr)
            for topic in described.values()
            if isinstance(topic, r.TopicDescription)
            and (args.topic or args.internal or not topic.internal)
            for p in topic.partitions
        }
        rows = [] if before is None else changes(before, now, show_time(now_ms()))
        if rows:
            shown = render(Listing(_EVENTS, rows, partition_style), look._replace(terminal=False))  # pyright: ignore[reportArgumentType]
            context.write(shown.split(b"\n", 1)[1] if headed else shown)
        before = now
        await trio.sleep(_WATCH_S)
