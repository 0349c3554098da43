"""The tabs of `pk top`: the rows of each tab for a model, the key of a row, and the tab that opens
a row."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

from pk.cli.cluster.reassignment_progress import status_row
from pk.cli.cluster.topics import partition_style
from pk.cli.output.formats import Column, Row, plain, title
from pk.cli.output.rows import annotations, columns
from pk.cli.positions.times import show_time
from pk.cli.top.meter import trend
from pk.cli.top.model import Model
from pk.cli.top.record import RecordOnScreen
from pk.cli.top.rows import (
    BrokerRow,
    Drawn,
    GroupOnScreen,
    GroupPartitionOnScreen,
    GroupPartitionRow,
    GroupRow,
    LagOnScreen,
    MoveOnScreen,
    MoveRow,
    OutOfSyncRow,
    PartitionRow,
    RequestRow,
    TopicOnScreen,
    TopicRow,
)
from pk.core.values import TopicPartition

RowOfTab = TypeVar("RowOfTab")


class TopColumn(NamedTuple):
    """A column of a tab, as the screen draws it."""

    key: str
    title: str
    show: Callable[[Any], str]
    right: bool
    how: Drawn


class Tab(NamedTuple, Generic[RowOfTab]):
    """A tab: its row types, its rows for a model, and how rows are sorted and opened."""

    name: str
    title: str
    snapshot: type
    """The row type of a snapshot."""

    drawn: type
    """The row type of the screen, which also has the fields of `snapshot`."""

    rows: Callable[[Model, str | None, float], list[RowOfTab]]
    """(model, subject, now in epoch milliseconds) → rows; the subject is the open topic or
    group."""

    key: Callable[[Row], Any]
    """The key of a row."""

    style: Callable[[RowOfTab], str | None]
    sort: str
    opens: str | None = None
    """The tab that opens a row of this one."""

    @property
    def columns(self) -> Sequence[TopColumn]:
        """The columns that the screen can draw."""
        return _drawn_columns(self.drawn)


_ALWAYS = Drawn()


@cache
def _drawn_columns(kind: type) -> tuple[TopColumn, ...]:
    found: list[TopColumn] = []
    for column, shown in zip(columns(kind), annotations(kind).values(), strict=True):
        how = shown if isinstance(shown, Drawn) else _ALWAYS
        named = title(column) if how.title is None else how.title
        found.append(TopColumn(column.key, named, column.show or plain, column.right, how))
    return tuple(found)


def _by(*keys: str) -> Callable[[Row], Any]:
    """A key function for sorting by one field or several."""
    if len(keys) == 1:
        return lambda row: row[keys[0]]
    return lambda row: tuple(row[key] for key in keys)


def _broker_style(row: BrokerRow) -> str | None:
    return None if row["state"] == "up" else "red"


def _move_style(row: MoveOnScreen) -> str | None:
    return "dim" if row["note"] == "done" else "yellow" if row["note"] else None


# cluster


def _broker_rows(model: Model, _: str | None, __: float) -> list[BrokerRow]:
    leads, holds = model.leads, model.holds
    incoming: dict[int, float] = {}
    for tp, p in model.partitions.items():
        rate = model.ends.rate(tp)
        if rate is not None:
            incoming[p.leader_id] = incoming.get(p.leader_id, 0.0) + rate
    rows: list[BrokerRow] = []
    for broker in sorted({*model.nodes, *holds}):
        node, disk = model.nodes.get(broker), model.disks.get(broker)
        used = None
        if disk is not None and disk.total and disk.usable is not None:
            used = round(100 * (1 - disk.usable / disk.total), 1)
        state = "down" if node is None else "fenced" if node.fenced else "up"
        if state == "up" and disk is not None and disk.failed:
            state = "disk failed"
        rows.append(
            {
                "broker": broker,
                "address": node.address if node else None,
                "rack": node.rack if node else None,
                "state": state,
                "controller": broker == model.controller,
                "leaders": leads[broker],
                "replicas": holds[broker],
                "in_rate": incoming.get(broker),
                "log_bytes": disk.bytes if disk else None,
                "growth": model.disk_growth.rate(broker),
                "disk_used_percent": used,
            }
        )
    return rows


CLUSTER = Tab(
    "cluster", "Cluster", BrokerRow, BrokerRow, _broker_rows, _by("broker"), _broker_style, "broker"
)


# topics


def _topic_rows(model: Model, _: str | None, __: float) -> list[TopicOnScreen]:
    readers = model.readers()
    rows: list[TopicOnScreen] = []
    for name, topic in model.topics.items():
        out = readers.get(name)
        rows.append(
            {
                "topic": name,
                "partitions": len(topic.partitions),
                "replication_factor": max((len(p.replicas) for p in topic.partitions), default=0),
                "under_replicated": sum(
                    len(p.isr) < len(p.replicas) and bool(model.missing(TopicPartition(name, n)))
                    for n, p in enumerate(topic.partitions)
                ),
                "offline": sum(p.leader_id < 0 for p in topic.partitions),
                "in_rate": model.topic_rate(name),
                "out_rate": sum(out.values()) if out else None,
                "bytes": None if model.sizes is None else model.sizes.get(name, 0),
                "internal": topic.internal,
                "recent": model.sparks.get(name, ()),
            }
        )
    return rows


def _topic_style(row: TopicOnScreen) -> str | None:
    if row["offline"]:
        return "red"
    return "yellow" if row["under_replicated"] else "dim" if row["internal"] else None


TOPICS = Tab(
    "topics",
    "Topics",
    TopicRow,
    TopicOnScreen,
    _topic_rows,
    _by("topic"),
    _topic_style,
    "in_rate",
    opens="topic",
)


def _partition_rows(model: Model, name: str | None, _: float) -> list[PartitionRow]:
    topic = model.topics.get(name or "")
    if topic is None:
        return []
    out = model.readers().get(topic.name, {})
    rows: list[PartitionRow] = []
    for number, p in enumerate(topic.partitions):
        tp = TopicPartition(topic.name, number)
        rows.append(
            {
                "partition": number,
                "leader": None if p.leader_id < 0 else p.leader_id,
                "replicas": list(p.replicas),
                "isr": list(p.isr),
                "end": model.ends.value(tp),
                "in_rate": model.ends.rate(tp),
                "out_rate": out.get(tp),
                "bytes": model.partition_sizes.get(tp),
            }
        )
    return rows


TOPIC = Tab(
    "topic",
    "Topic",
    PartitionRow,
    PartitionRow,
    _partition_rows,
    _by("partition"),
    partition_style,
    "partition",
    opens="records",
)


def _record_rows(model: Model, _: str | None, __: float) -> list[RecordOnScreen]:
    if model.records is None:
        return []
    return [
        {
            "time": record.timestamp,
            "partition": source.partition,
            "offset": record.offset,
            "size": None if record.value is None else len(record.value),
            "key": record.key,
            "value": record.value,
            "pair": (source, record),
        }
        for source, record in reversed(model.records.pairs)
    ]


def _record_style(row: RecordOnScreen) -> str | None:
    return "dim" if row["value"] is None else None


RECORDS = Tab(
    "records",
    "Records",
    RecordOnScreen,
    RecordOnScreen,
    _record_rows,
    _by("partition", "offset"),
    _record_style,
    "time",
)


# groups


def _time_lag(model: Model, group: str, tp: TopicPartition | None, now_ms: float) -> float | None:
    if tp is None:
        return None
    time_ms = model.next_time_ms(group, tp)
    return None if time_ms is None or time_ms < 0 else max(now_ms - time_ms, 0)


def _lag_row(
    lag: int | None, drain: float | None, incoming: float | None, time_lag_ms: float | None
) -> LagOnScreen:
    found = trend(lag, drain, incoming)
    return {
        "lag": lag,
        "in_rate": incoming,
        "drain_rate": drain,
        "trend": found.word,
        "zero_s": None if found.zero_s is None else round(found.zero_s, 1),
        "to_zero": (found.word, found.zero_s),
        "time_lag_ms": 0 if lag == 0 else None if time_lag_ms is None else round(time_lag_ms),
    }


def _group_rows(model: Model, _: str | None, now_ms: float) -> list[GroupOnScreen]:
    rows: list[GroupOnScreen] = []
    for name, group in (model.groups or {}).items():
        commits = model.commits.get(name)
        lag = model.group_lag(name)
        worst = model.worst(name) if lag else None
        rows.append(
            {
                "group": name,
                "state": group.state or None,
                "type": "Pipeline" if name in model.pipelines else group.type or None,
                "members": model.members.get(name),
                "topics": None if commits is None else len({tp.topic for tp in commits}),
                **_lag_row(
                    lag,
                    model.group_drain(name),
                    model.group_incoming(name),
                    _time_lag(model, name, worst, now_ms),
                ),
            }
        )
    return rows


def _lag_style(row: LagOnScreen) -> str | None:
    if row["trend"] == "stuck":
        return "red"
    return "yellow" if row["trend"] == "growing" else None


def _group_style(row: GroupOnScreen) -> str | None:
    # The group of a pipeline is always empty.
    is_left = row["state"] in ("Empty", "Dead") and row["type"] != "Pipeline"
    return _lag_style(row) or ("dim" if is_left else None)


GROUPS = Tab(
    "groups",
    "Groups",
    GroupRow,
    GroupOnScreen,
    _group_rows,
    _by("group"),
    _group_style,
    "lag",
    opens="group",
)


def _group_partition_rows(
    model: Model, group: str | None, now_ms: float
) -> list[GroupPartitionOnScreen]:
    rows: list[GroupPartitionOnScreen] = []
    for tp, offset in sorted(model.commits.get(group or "", {}).items()):
        assert group is not None
        lag = model.lag(group, tp)
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "offset": offset,
                "end": model.ends.value(tp),
                **_lag_row(
                    lag,
                    model.drains.rate((group, tp)),
                    model.ends.rate(tp),
                    _time_lag(model, group, tp, now_ms) if lag else None,
                ),
            }
        )
    return rows


GROUP = Tab(
    "group",
    "Group",
    GroupPartitionRow,
    GroupPartitionOnScreen,
    _group_partition_rows,
    _by("topic", "partition"),
    _lag_style,
    "lag",
)


# in-sync replicas


def _isr_rows(model: Model, _: str | None, now_ms: float) -> list[OutOfSyncRow]:
    rows: list[OutOfSyncRow] = []
    for tp in model.unhealthy:
        p = model.partitions[tp]
        out = model.missing(tp)
        since = model.history.since(tp, out)
        needed = model.min_isr.get(tp.topic)
        state = "under-replicated"
        if p.leader_id < 0:
            state = "offline"
        elif needed is not None and len(p.isr) <= needed:
            state = "under min" if len(p.isr) < needed else "at min"
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "leader": None if p.leader_id < 0 else p.leader_id,
                "replicas": list(p.replicas),
                "isr": list(p.isr),
                "out_of_sync": out,
                "state": state,
                "out_for_ms": None if since is None else round(now_ms - since),
                "since": None if since is None else show_time(since),
                "behind": model.behind.get(tp),
            }
        )
    return rows


ISR = Tab(
    "isr",
    "ISR",
    OutOfSyncRow,
    OutOfSyncRow,
    _isr_rows,
    _by("topic", "partition"),
    partition_style,
    "topic",
)


# reassignments


def _move_rows(model: Model, _: str | None, __: float) -> list[MoveOnScreen]:
    rows: list[MoveOnScreen] = []
    for row in model.moves.rows:
        shown = status_row(row)
        note = "cancelled" if row.cancelled else "done" if row.done else shown["note"]
        rows.append({**shown, "note": note, "bar": shown["percent"]})
    return rows


MOVES = Tab(
    "reassign",
    "Reassign",
    MoveRow,
    MoveOnScreen,
    _move_rows,
    _by("topic", "partition"),
    _move_style,
    "percent",
)

# requests


def _request_rows(model: Model, _: str | None, __: float) -> list[RequestRow]:
    times, errors = model.request_times, model.request_errors
    return [
        {
            "request": key[1],
            "broker": key[0],
            "rate": times.rate(key),
            "p50_ms": times.quantile(key, 0.5),
            "p99_ms": times.quantile(key, 0.99),
            "error_rate": errors.rate(key),
            "errors": errors.value(key),
        }
        for key in sorted(times.sampled())
    ]


def _request_style(row: RequestRow) -> str | None:
    return "yellow" if row["error_rate"] else None if row["rate"] else "dim"


REQUESTS = Tab(
    "requests",
    "Requests",
    RequestRow,
    RequestRow,
    _request_rows,
    _by("request", "broker"),
    _request_style,
    "rate",
)

TABS: Sequence[Tab[Any]] = (CLUSTER, TOPICS, GROUPS, ISR, MOVES, REQUESTS)
"""The tabs, in the order of keys 1 to 6."""

BY_NAME: Mapping[str, Tab[Any]] = {tab.name: tab for tab in (*TABS, TOPIC, RECORDS, GROUP)}


def snapshot_columns(tab: Tab[Any]) -> Sequence[Column]:
    """The columns of a snapshot."""
    return columns(tab.snapshot)
