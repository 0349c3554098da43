"""`pk isr`: at a glance, what is replicated how far.

Where each replica's log ends is asked of the replica itself: ListOffsets with the replica id -2 ("debugging") is answered
by followers too, and with the log end instead of the high watermark. Of a broker that does not answer `isr_since` knows
when it was last seen, and about how much it has missed.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

import trio

from pk.cli.cluster.out_of_sync_since import Witness, witnesses
from pk.cli.cluster.partition_selection import (
    Partitions,
    ailing,
    chosen,
    needed_replicas,
    tell_none,
)
from pk.cli.cluster.topics import leader_of, partition_style
from pk.cli.output.formats import Column, Listing
from pk.cli.positions.times import show_time
from pk.cli.runtime.context import Context
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError, Straggler

_DEBUGGING_REPLICA = -2
_CONSUMER = -1
_ANSWER_MS = 3000
"""A broker that has not answered by then leaves a gap, where pk.straggler.timeout.ms says nothing else: it may be stopped
and hold its connections open."""

Ends = dict[TopicPartition, dict[int, int]]
"""Partition → broker → the log end offset of the replica there."""


class About(int):
    """A number of records that is reckoned, not told."""


def show_behind(lag: Mapping[str, int | None] | None) -> str:
    """The replicas that are behind, as broker:records; broker:~records where that is reckoned, broker:? where unknown."""
    if lag is None:
        return "-"
    told = (
        f"{broker}:{'?' if behind is None else f'~{behind}' if isinstance(behind, About) else behind}"
        for broker, behind in lag.items()
        if behind != 0 or isinstance(behind, About)
    )
    return ",".join(told) or "0"


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
        nursery.start_soon(_ask_all, admin, by_leader, _CONSUMER, watermarks, failed)
        nursery.start_soon(_ask_all, admin, _by_broker(wanted), _DEBUGGING_REPLICA, ends, failed)
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


def lags(
    tp: TopicPartition,
    p: r.PartitionDescription,
    ends: Mapping[int, int],
    seen: Mapping[tuple[TopicPartition, int], Witness],
    brokers: Iterable[int],
) -> dict[str, int | None] | None:
    """Broker → records that its replica lacks; None where the leader's end is not known."""
    leo = ends.get(p.leader_id)
    if leo is None:
        return None
    return {
        str(b): max(leo - ends[b], 0) if b in ends else _missed(seen.get((tp, b))) for b in brokers
    }


def _missed(witness: Witness | None) -> int | None:
    return None if witness is None or witness.missed is None else About(witness.missed)


async def log_ends(admin: Admin, partitions: Partitions) -> Ends:
    """Where the log of each replica ends, as far as its broker answers."""
    ends: Ends = {}
    await _ask_all(admin, _by_broker(partitions), _DEBUGGING_REPLICA, ends, {})
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
    failed: dict[int, Exception],
) -> None:
    """Asks brokers for the latest offsets of partitions; why one did not answer is put into `failed`."""

    async def ask(broker: int) -> bool:
        try:
            told = await latest(admin, broker, by_broker[broker], replica_id)
        except (ClientError, KafkaError) as e:
            failed[broker] = e
            return False
        for tp, offset in told.items():
            offsets.setdefault(tp, {})[broker] = offset
        return True

    limit_ms = admin.config.pk_straggler_timeout_ms
    limit_ms = _ANSWER_MS if limit_ms < 0 else limit_ms
    limit_s = limit_ms / 1000
    for broker in await admin.together.ask(by_broker, ask, then_s=limit_s, first_s=limit_s):
        node = admin.cluster.node(broker)
        failed[broker] = Straggler(broker, node.address if node else "?", limit_ms)


async def latest(
    admin: Admin, broker: int, partitions: Iterable[TopicPartition], replica_id: int = _CONSUMER
) -> dict[TopicPartition, int]:
    """The latest offsets of partitions as a broker tells them to `replica_id`: to consumers, as here, a leader tells the high
    watermark. What it refuses is left out.

    One request, and no metadata before it: what is asked every other second must be cheap. Raises ClientError, KafkaError.
    """
    from pk.core.wire.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

    topics: dict[str, ListOffsetsTopic] = {}
    for tp in partitions:
        topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic))
        topic.partitions.append(
            ListOffsetsPartition(partition_index=tp.partition, timestamp=r.LATEST)
        )
    request = ListOffsetsRequest(replica_id=replica_id, topics=list(topics.values()))
    connection = await admin.cluster.connection(broker)
    response = await connection.request(request, low=1)
    return {
        TopicPartition(topic.name, p.partition_index): p.offset
        for topic in response.topics
        for p in topic.partitions
        if p.error_code == 0
    }
