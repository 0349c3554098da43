"""`pk isr`: at a glance, what is replicated how far.

Where each replica's log ends is asked of the replica itself: ListOffsets with the replica id -2 ("debugging") is answered
by followers too, and with the log end instead of the high watermark. A broker that does not answer leaves a gap.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import trio

from pk.cli.commands.common import leader_of, partition_style
from pk.cli.commands.partition_view import Partitions, ailing, chosen, needed_replicas
from pk.cli.context import Context, join
from pk.cli.output import Column, Listing
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError

_DEBUGGING_REPLICA = -2
_CONSUMER = -1
_ANSWER_S = 3.0
"""A broker that has not answered by then leaves a gap: it may be stopped and hold its connections open."""

Ends = dict[TopicPartition, dict[int, int]]
"""Partition → broker → the log end offset of the replica there."""


def show_behind(lag: Mapping[str, int | None] | None) -> str:
    """The replicas that are behind, as broker:records; broker:? where its end is not known."""
    if lag is None:
        return "-"
    told = (
        f"{broker}:{'?' if behind is None else behind}"
        for broker, behind in lag.items()
        if behind != 0
    )
    return ",".join(told) or "0"


_ISR = (
    Column("topic"),
    Column("partition", right=True, title="PART"),
    Column("leader", right=True),
    Column("leader_epoch", right=True, title="EPOCH"),
    Column("replicas"),
    Column("isr", title="ISR"),
    Column("in_sync", right=True, wide=True),
    Column("out_of_sync", title="OUT"),
    Column("elr", title="ELR"),
    Column("last_known_elr", title="LAST KNOWN ELR", wide=True),
    Column("log_end_offset", right=True, title="LEO"),
    Column("high_watermark", right=True, title="HW"),
    Column("behind", show=show_behind),
    Column("lag_max", right=True, wide=True),
    Column("since", title="SINCE", show=lambda since: since or "—", wide=True),
    Column("log_end_offsets", title="LEO OF EACH", wide=True),
    Column("offline_replicas", wide=True, title="OFFLINE"),
)


async def isr(context: Context) -> None:
    """`pk isr`."""
    args = context.args
    admin = await context.admin()
    if args.watch:
        from pk.cli.commands.isr_watch import watch

        await watch(context, admin)
        return
    partitions = await chosen(context, admin)
    wanted = ailing(partitions, args, await needed_replicas(admin, args, partitions))
    rows = await isr_rows(context, admin, wanted)
    context.show(Listing(_ISR, rows, partition_style))  # pyright: ignore[reportArgumentType]


async def isr_rows(
    context: Context, admin: Admin, wanted: Partitions, since: Mapping[TopicPartition, str] = {}
) -> list[dict[str, Any]]:
    """A row for each partition; `since` is when each fell out of sync, as far as somebody saw it."""
    ends: Ends = {}
    watermarks: Ends = {}
    by_leader: dict[int, list[TopicPartition]] = {}
    for tp, p in wanted.items():
        if p.leader_id >= 0:
            by_leader.setdefault(p.leader_id, []).append(tp)
    silent: set[int] = set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_ask_all, admin, by_leader, _CONSUMER, watermarks, silent)
        nursery.start_soon(_ask_all, admin, _by_broker(wanted), _DEBUGGING_REPLICA, ends, silent)
    if silent:
        names = join([str(b) for b in sorted(silent)])
        context.say(
            f"{'Broker' if len(silent) == 1 else 'Brokers'} {names} did not answer; what only "
            "they know is left open."
        )
    return [
        isr_row(tp, p, watermarks.get(tp, {}).get(p.leader_id), ends.get(tp, {}), since.get(tp))
        for tp, p in wanted.items()
    ]


def isr_row(
    tp: TopicPartition,
    p: r.PartitionDescription,
    hw: int | None,
    ends: Mapping[int, int],
    since: str | None = None,
) -> dict[str, Any]:
    """What is known of one partition."""
    leo = ends.get(p.leader_id)
    behind: dict[str, int | None] | None = None
    if leo is not None:
        behind = {
            str(b): max(leo - ends[b], 0) if b in ends else None
            for b in p.replicas
            if b != p.leader_id
        }
    known = [lag for lag in (behind or {}).values() if lag is not None]
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
        "last_known_elr": None if p.last_known_elr is None else list(p.last_known_elr),
        "log_end_offset": leo,
        "high_watermark": hw,
        "behind": behind,
        "lag_max": max(known, default=None if leo is None else 0),
        "since": since,
        "log_end_offsets": {str(b): ends.get(b) for b in p.replicas},
        "offline_replicas": list(p.offline_replicas),
    }


async def log_ends(admin: Admin, partitions: Partitions) -> Ends:
    """Where the log of each replica ends, as far as its broker answers."""
    ends: Ends = {}
    await _ask_all(admin, _by_broker(partitions), _DEBUGGING_REPLICA, ends, set())
    return ends


def _by_broker(partitions: Partitions) -> dict[int, list[TopicPartition]]:
    found: dict[int, list[TopicPartition]] = {}
    for tp, p in partitions.items():
        for broker in p.replicas:
            if broker not in p.offline_replicas:
                found.setdefault(broker, []).append(tp)
    return found


async def _ask_all(
    admin: Admin,
    by_broker: Mapping[int, list[TopicPartition]],
    replica_id: int,
    offsets: Ends,
    silent: set[int],
) -> None:
    """Asks brokers for the latest offsets of partitions; those that do not answer in time are added to `silent`."""

    async def ask(broker: int, tps: list[TopicPartition]) -> None:
        silent.add(broker)
        with trio.move_on_after(_ANSWER_S):
            if await _ask_latest(admin, broker, tps, replica_id, offsets):
                answered.add(broker)

    answered: set[int] = set()
    async with trio.open_nursery() as nursery:
        for broker, tps in by_broker.items():
            nursery.start_soon(ask, broker, tps)
    silent.difference_update(answered)


async def _ask_latest(
    admin: Admin, broker: int, tps: Iterable[TopicPartition], replica_id: int, offsets: Ends
) -> bool:
    """The latest offsets as a broker tells them to `replica_id`; whether it answered."""
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
    request = ListOffsetsRequest(replica_id=replica_id, topics=list(topics.values()))
    try:
        connection = await admin.cluster.connection(broker)
        response = await connection.request(request, low=1)
    except (ClientError, KafkaError):
        return False
    for topic in response.topics:
        for p in topic.partitions:
            if p.error_code == 0:
                tp = TopicPartition(topic.name, p.partition_index)
                offsets.setdefault(tp, {})[broker] = p.offset
    return True
