"""The tables of `pk top`: which columns a tab has, and the model's rows for them.

A column carries how people see its value and how readily it makes room: where the terminal is too narrow those with the
highest `drop` go first, and the first column, the name, shrinks last of all. The same columns serve a snapshot in every
format, where nothing is dropped and values are as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pk.cli.cluster.reassignment_progress import status_row
from pk.cli.cluster.replica_lag import show_lag
from pk.cli.cluster.topics import partition_style
from pk.cli.output.amounts import show_bytes, show_rate
from pk.cli.output.formats import Column, Row, plain
from pk.cli.positions.times import show_span, show_time
from pk.cli.top.meter import trend
from pk.cli.top.model import Model
from pk.core.values import TopicPartition

_SPARKS = "▁▂▃▄▅▆▇█"
_BAR = 10


class TopColumn(NamedTuple):
    """A column of a tab."""

    key: str
    title: str
    show: Callable[[Any], str] = plain
    right: bool = False
    drop: int = 0
    """0: always there; else those with the highest number go first where it is narrow."""

    falling: bool = False
    """Whether sorting by it begins with the largest."""

    only_screen: bool = False
    """Drawn, not told: no part of a snapshot."""

    only_told: bool = False
    """Told, not drawn, where nobody asks for it."""

    @property
    def column(self) -> Column:
        return Column(self.key, self.show, wide=self.drop > 1, right=self.right, title=self.title)


class Tab(NamedTuple):
    """A tab: its columns, and the rows that a model has for it."""

    name: str
    title: str
    columns: Sequence[TopColumn]
    rows: Callable[[Model, str | None, float], list[dict[str, Any]]]
    """(model, subject, now in epoch milliseconds) → rows; the subject is the topic or group looked into."""

    key: Callable[[Row], Any]
    """What names a row."""

    style: Callable[[Row], str | None]
    sort: str
    opens: str | None = None
    """The tab that looks into a row of this one."""


def show_count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def show_age(ms: float | None) -> str:
    return "-" if ms is None else show_span(ms)


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part:.0f} %"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else show_span(seconds * 1000)


def _out_for(ms: float | None) -> str:
    return "?" if ms is None else show_span(ms)


def _by(*keys: str) -> Callable[[Row], Any]:
    """What names a row: one field, or several."""
    if len(keys) == 1:
        return lambda row: row[keys[0]]
    return lambda row: tuple(row[key] for key in keys)


def _broker_style(row: Row) -> str | None:
    return None if row["state"] == "up" else "red"


def _move_style(row: Row) -> str | None:
    return "dim" if row["note"] == "done" else "yellow" if row["note"] else None


def spark(values: Sequence[float], width: int = 20) -> str:
    """The last values as a line of bars; the highest of them is the full bar."""
    values = list(values)[-width:]
    top = max(values, default=0.0)
    if top <= 0:
        return _SPARKS[0] * len(values)
    return "".join(_SPARKS[min(round(v / top * 7), 7)] for v in values)


def _bar(percent: float | None) -> str:
    if percent is None:
        return "·" * _BAR
    full = round(percent / 100 * _BAR)
    return "█" * full + "░" * (_BAR - full)


# cluster


def _broker_rows(model: Model, _: str | None, __: float) -> list[dict[str, Any]]:
    leads, holds = model.leads, model.holds
    incoming: dict[int, float] = {}
    for tp, p in model.partitions.items():
        rate = model.ends.rate(tp)
        if rate is not None:
            incoming[p.leader_id] = incoming.get(p.leader_id, 0.0) + rate
    rows: list[dict[str, Any]] = []
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
    "cluster",
    "Cluster",
    (
        TopColumn("broker", "BROKER", right=True),
        TopColumn("address", "ADDRESS"),
        TopColumn("rack", "RACK", drop=3),
        TopColumn("state", "STATE"),
        TopColumn("controller", "CTRL", drop=2, falling=True),
        TopColumn("leaders", "LEADERS", show_count, right=True, falling=True),
        TopColumn("replicas", "REPLICAS", show_count, right=True, falling=True),
        TopColumn("in_rate", "IN/s", show_rate, right=True, falling=True),
        TopColumn("log_bytes", "LOG", show_bytes, right=True, falling=True),
        TopColumn("growth", "+B/s", show_bytes, right=True, drop=1, falling=True),
        TopColumn(
            "disk_used_percent",
            "DISK",
            _percent,
            right=True,
            falling=True,
        ),
    ),
    _broker_rows,
    _by("broker"),
    _broker_style,
    "broker",
)


# topics


def _topic_rows(model: Model, _: str | None, __: float) -> list[dict[str, Any]]:
    readers = model.readers()
    rows: list[dict[str, Any]] = []
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


def _topic_style(row: Row) -> str | None:
    if row["offline"]:
        return "red"
    return "yellow" if row["under_replicated"] else "dim" if row["internal"] else None


TOPICS = Tab(
    "topics",
    "Topics",
    (
        TopColumn("topic", "TOPIC"),
        TopColumn("partitions", "PART", show_count, right=True, falling=True),
        TopColumn("replication_factor", "RF", right=True, falling=True),
        TopColumn("under_replicated", "UNDER", show_count, right=True, falling=True),
        TopColumn("offline", "OFFL", show_count, right=True, drop=2, falling=True),
        TopColumn("in_rate", "IN/s", show_rate, right=True, falling=True),
        TopColumn("out_rate", "OUT/s", show_rate, right=True, falling=True),
        TopColumn("bytes", "SIZE", show_bytes, right=True, falling=True),
        TopColumn("internal", "INTERNAL", drop=4, falling=True, only_told=True),
        TopColumn("recent", "IN LATELY", spark, drop=3, only_screen=True),
    ),
    _topic_rows,
    _by("topic"),
    _topic_style,
    "in_rate",
    opens="topic",
)


def _partition_rows(model: Model, name: str | None, _: float) -> list[dict[str, Any]]:
    topic = model.topics.get(name or "")
    if topic is None:
        return []
    out = model.readers().get(topic.name, {})
    rows: list[dict[str, Any]] = []
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
    (
        TopColumn("partition", "PART", right=True),
        TopColumn("leader", "LEADER", right=True),
        TopColumn("replicas", "REPLICAS"),
        TopColumn("isr", "ISR"),
        TopColumn("end", "END", show_count, right=True, falling=True),
        TopColumn("in_rate", "IN/s", show_rate, right=True, falling=True),
        TopColumn("out_rate", "OUT/s", show_rate, right=True, falling=True),
        TopColumn("bytes", "SIZE", show_bytes, right=True, falling=True),
    ),
    _partition_rows,
    _by("partition"),
    partition_style,
    "partition",
)


# groups


def _time_lag(model: Model, group: str, tp: TopicPartition | None, now_ms: float) -> float | None:
    if tp is None:
        return None
    time_ms = model.next_time_ms(group, tp)
    return None if time_ms is None or time_ms < 0 else max(now_ms - time_ms, 0)


def show_trend(word: str | None) -> str:
    """What stands where a time would: why there is none."""
    return {None: "-", "none": "-", "even": "keeps up"}.get(word, word or "-")


def _to_zero(value: Any) -> str:
    word, seconds = value
    if word == "shrinking" and seconds is not None:
        return show_span(seconds * 1000)
    return show_trend(word)


def _lag_row(
    lag: int | None, drain: float | None, incoming: float | None, time_lag_ms: float | None
) -> dict[str, Any]:
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


def _group_rows(model: Model, _: str | None, now_ms: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, group in (model.groups or {}).items():
        commits = model.commits.get(name)
        lag = model.group_lag(name)
        worst = model.worst(name) if lag else None
        rows.append(
            {
                "group": name,
                "state": group.state or None,
                "type": group.type or None,
                "members": model.members.get(name),
                "topics": None if commits is None else len({tp.topic for tp in commits}),
            }
            | _lag_row(
                lag,
                model.group_drain(name),
                model.group_incoming(name),
                _time_lag(model, name, worst, now_ms),
            )
        )
    return rows


def _lag_style(row: Row) -> str | None:
    if row["trend"] == "stuck":
        return "red"
    return "yellow" if row["trend"] == "growing" else None


def _group_style(row: Row) -> str | None:
    return _lag_style(row) or ("dim" if row["state"] in ("Empty", "Dead") else None)


_LAG = (
    TopColumn("lag", "LAG", show_count, right=True, falling=True),
    TopColumn("in_rate", "IN/s", show_rate, right=True, drop=1, falling=True),
    TopColumn("drain_rate", "DRAIN/s", show_rate, right=True, falling=True),
    TopColumn("to_zero", "TO ZERO", _to_zero, right=True, only_screen=True),
    TopColumn("time_lag_ms", "TIME LAG", show_age, right=True, falling=True),
)
_TOLD = (
    TopColumn("trend", "TREND", show_trend),
    TopColumn("zero_s", "TO ZERO", _seconds, right=True),
)
"""What a snapshot has instead of `to_zero`."""

GROUPS = Tab(
    "groups",
    "Groups",
    (
        TopColumn("group", "GROUP"),
        TopColumn("state", "STATE"),
        TopColumn("type", "TYPE", drop=4),
        TopColumn("members", "MEM", show_count, right=True, falling=True),
        TopColumn("topics", "TOPICS", show_count, right=True, drop=2, falling=True),
        *_LAG,
    ),
    _group_rows,
    _by("group"),
    _group_style,
    "lag",
    opens="group",
)


def _group_partition_rows(model: Model, group: str | None, now_ms: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for tp, committed in sorted(model.commits.get(group or "", {}).items()):
        assert group is not None
        lag = model.lag(group, tp)
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": committed,
                "end": model.ends.value(tp),
            }
            | _lag_row(
                lag,
                model.drains.rate((group, tp)),
                model.ends.rate(tp),
                _time_lag(model, group, tp, now_ms) if lag else None,
            )
        )
    return rows


GROUP = Tab(
    "group",
    "Group",
    (
        TopColumn("topic", "TOPIC"),
        TopColumn("partition", "PART", right=True),
        TopColumn("committed", "COMMITTED", show_count, right=True, drop=2, falling=True),
        TopColumn("end", "END", show_count, right=True, drop=1, falling=True),
        *_LAG,
    ),
    _group_partition_rows,
    _by("topic", "partition"),
    _lag_style,
    "lag",
)


# in-sync replicas


def _isr_rows(model: Model, _: str | None, now_ms: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for tp in model.ailing:
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
    (
        TopColumn("topic", "TOPIC"),
        TopColumn("partition", "PART", right=True),
        TopColumn("leader", "LEADER", right=True),
        TopColumn("replicas", "REPLICAS", drop=1),
        TopColumn("isr", "ISR"),
        TopColumn("out_of_sync", "OUT"),
        TopColumn("state", "STATE", drop=2),
        TopColumn(
            "out_for_ms",
            "OUT FOR",
            _out_for,
            right=True,
            falling=True,
        ),
        TopColumn("since", "SINCE", drop=4),
        TopColumn("behind", "BEHIND", show_lag),
    ),
    _isr_rows,
    _by("topic", "partition"),
    partition_style,
    "topic",
)


# reassignments


def _move_rows(model: Model, _: str | None, __: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in model.moves.rows:
        told = status_row(row)
        told["note"] = "cancelled" if row.cancelled else "done" if row.done else told["note"]
        rows.append(told | {"bar": told["percent"]})
    return rows


MOVES = Tab(
    "reassign",
    "Reassign",
    (
        TopColumn("topic", "TOPIC"),
        TopColumn("partition", "PART", right=True),
        TopColumn("replicas", "REPLICAS", drop=2),
        TopColumn("adding", "ADDING"),
        TopColumn("removing", "REMOVING"),
        TopColumn("bar", "", _bar, drop=1, only_screen=True),
        TopColumn(
            "percent",
            "%",
            _percent,
            right=True,
            falling=True,
        ),
        TopColumn("copied", "COPIED", show_bytes, right=True, drop=3, falling=True),
        TopColumn("total", "OF", show_bytes, right=True, falling=True),
        TopColumn("note", "NOTE"),
    ),
    _move_rows,
    _by("topic", "partition"),
    _move_style,
    "percent",
)

TABS: Sequence[Tab] = (CLUSTER, TOPICS, GROUPS, ISR, MOVES)
"""In the order of the keys 1 to 5."""

BY_NAME: Mapping[str, Tab] = {tab.name: tab for tab in (*TABS, TOPIC, GROUP)}


def told_columns(tab: Tab) -> list[Column]:
    """The columns of a snapshot."""
    found: list[Column] = []
    for column in tab.columns:
        if column.key == "to_zero":
            found += [c.column for c in _TOLD]
        elif not column.only_screen:
            found.append(column.column)
    return found
