"""`pk isr -w`: shows replicas that leave and join the ISR.

Kafka has no API for the history of an ISR, so a watch describes the partitions repeatedly and shows
the differences. It first shows the replicas that are already out of sync, without a time, and for
how long, as `out_of_sync_since` estimates it. The row of a replica that is in sync again says how
long it was out of sync.
"""

from collections.abc import Iterable

import trio

from pk.cli.cluster.isr_changes import History, Watched, isr_changes
from pk.cli.cluster.isr_event import IsrEvent
from pk.cli.cluster.out_of_sync_since import witnesses
from pk.cli.cluster.partition_selection import filtered, filters, needed_replicas
from pk.cli.cluster.replicas import lags, log_ends
from pk.cli.cluster.topics import (
    Partitions,
    existing_topics,
    is_pattern,
    named_topics,
    partition_style,
)
from pk.cli.exits import Exit
from pk.cli.nouns.isr.options import InSyncReplicas
from pk.cli.output.formats import Column, Row, plain, title
from pk.cli.output.rows import columns
from pk.cli.positions.resolve import now_ms
from pk.cli.positions.times import show_time
from pk.cli.runtime.context import Context
from pk.cli.runtime.event_table import Cell, EventTable
from pk.cli.runtime.poll import until_answered
from pk.cli.terminal.signals import listen_for_interrupts
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin

_ROOMY = 100
"""The width, in columns, of a terminal that has space for all columns."""


async def _partitions(
    context: Context, admin: Admin, options: InSyncReplicas, *, first: bool
) -> Partitions:
    """The current partitions. Raises CommandError if the `first` call does not find a topic that is
    named."""
    names: list[str] | None = None
    if options.topic:
        # A pattern is matched again each time, so that it also finds new topics.
        plain = [word for word in options.topic if not is_pattern(word)]
        patterns = [word for word in options.topic if is_pattern(word)]
        names = plain + (await named_topics(context, admin, patterns) if patterns else [])
        if first:
            await existing_topics(context, admin, plain)
    described = await admin.describe_topics(names)
    return {
        TopicPartition(topic.name, p.partition): p
        for topic in described.ok.values()
        if (names or options.internal or filters(options) or not topic.internal)
        for p in topic.partitions
    }


def _cells(context: Context, topics: Iterable[str]) -> list[Cell]:
    """The cells of an event. A narrow terminal does not show the leader. Columns have a fixed
    width, since rows come one by one."""
    topic = max(min(max(map(len, topics), default=5), 40), 5)
    wide = {"time": 12, "topic": topic, "partition": 4, "event": 7, "brokers": 7, "leader": 6}
    wide |= {"isr": 9, "out_for_ms": 8, "behind": 0}
    roomy = not context.output.terminal or context.output.width >= _ROOMY
    return [
        _cell(column, wide[column.key], terminal=context.output.terminal)
        for column in columns(IsrEvent)
        if roomy or column.key != "leader"
    ]


def _cell(column: Column, width: int, *, terminal: bool) -> Cell:
    show = column.show or plain
    head = title(column) if terminal else title(column).replace(" ", "-")

    def text(row: Row) -> str:
        return show(row[column.key])

    return Cell(head, width, text, right=column.right, cut=False)


async def watch(context: Context, admin: Admin, options: InSyncReplicas, every_s: float) -> int:
    """Show changes until the watch is interrupted, polling every `every_s` seconds.

    It listens for Ctrl-C: a KeyboardInterrupt could be raised on any line, and be swallowed there,
    as in a finalizer.
    """
    with listen_for_interrupts() as interrupts:
        interrupted = await interrupts.or_until(lambda: _watch(context, admin, options, every_s))
    if interrupted and context.streams.err_terminal:
        context.say()
    return Exit.INTERRUPTED if interrupted else Exit.OK


async def _watch(context: Context, admin: Admin, options: InSyncReplicas, every_s: float) -> None:
    history = History()
    table: EventTable | None = None
    before: Watched = {}

    async def described() -> tuple[Partitions, dict[str, int]]:
        partitions = await _partitions(context, admin, options, first=table is None)
        return partitions, await needed_replicas(admin, options, partitions)

    while True:
        if table is None:
            partitions, min_isr = await described()
        else:
            partitions, min_isr = await until_answered(context, described)
        now: Watched = {tp: (p.leader_id, p.isr) for tp, p in partitions.items()}
        if table is None:
            cells = _cells(context, {tp.topic for tp in partitions})
            table = EventTable(context, columns(IsrEvent), cells, partition_style)
            begun = history.begin(filtered(partitions, options, min_isr))
            await _add_since(admin, partitions, begun, history, now_ms())
            table.add(begun)
            count = len(partitions)
            context.say(f"Watching {count} partition{'s'[: count != 1]}; Ctrl-C ends.")
        else:
            stamp = now_ms()
            rows = isr_changes(before, now, show_time(stamp))
            history.see(rows, stamp)
            await _add_lag(admin, partitions, rows)
            wanted = _wanted(options, partitions, before, min_isr)
            table.add([row for row in rows if _of(row) in wanted])
        before = now
        await trio.sleep(every_s)


def _of(row: IsrEvent) -> TopicPartition:
    return TopicPartition(row["topic"], row["partition"])


def _wanted(
    options: InSyncReplicas, partitions: Partitions, before: Watched, min_isr: dict[str, int]
) -> set[TopicPartition]:
    """The partitions to show: those that match a filter now, and those that were not fully in sync
    at the previous poll."""
    found = set(filtered(partitions, options, min_isr)) | (before.keys() - partitions.keys())
    was = {
        tp: partitions[tp]
        for tp, (leader, isr) in before.items()
        if tp in partitions and (leader < 0 or len(isr) < len(partitions[tp].replicas))
    }
    return found | set(was)


async def _add_since(
    admin: Admin,
    partitions: Partitions,
    rows: list[IsrEvent],
    history: History,
    stamp: int,
) -> None:
    """Add to the replicas that are out of sync when the watch begins since when, and by how many
    records."""
    gone = {_of(row): partitions[_of(row)] for row in rows if row["event"] == "out"}
    if not gone:
        return
    ends = await log_ends(admin, gone)
    seen = await witnesses(admin, gone, ends)
    for (tp, broker), witness in seen.items():
        if witness.since_ms is not None:
            history.learn(tp, broker, witness.since_ms)
    for row in rows:
        tp = _of(row)
        if tp in gone:
            since = history.since(tp, row["brokers"])
            row["out_for_ms"] = None if since is None else max(stamp - since, 0)
            row["behind"] = lags(tp, gone[tp], ends.get(tp, {}), seen, row["brokers"])


async def _add_lag(admin: Admin, partitions: Partitions, rows: list[IsrEvent]) -> None:
    """Add the number of records that the replicas lack that have just left the ISR."""
    left = {_of(row): row for row in rows if row["event"] == "shrink" and row["leader"] is not None}
    if not left:
        return
    gone = {tp: partitions[tp] for tp in left}
    ends = await log_ends(admin, gone)
    seen = await witnesses(admin, gone, ends)
    for tp, row in left.items():
        row["behind"] = lags(tp, partitions[tp], ends.get(tp, {}), seen, row["brokers"])
