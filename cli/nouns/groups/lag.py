"""`pk groups lag`: how far groups are behind, in records and in time, whether they catch up, and when.

Rates need two looks. `--over 10` takes both itself; `-w`, and a second `groups lag` in the shell within a minute, use
the look before. `--fail-if` turns the answer into an exit code for monitoring.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import trio

from pk.cli.cluster.groups import (
    check_topics,
    committing_groups,
    describe_existing,
    lag_style,
    longest_lag,
    offset_rows,
)
from pk.cli.nouns.groups.groups import show_lag_time
from pk.cli.output.formats import Column, Listing, Row, narrow
from pk.cli.positions.times import show_span
from pk.cli.runtime.context import Context, count
from pk.cli.runtime.exits import CommandError, Unusable
from pk.cli.runtime.session import Session
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin

_STALE_S = 60.0
"""A look older than that says nothing of how it goes now."""

_STEADY = 0.02
"""Lag that changes by less than this share of what is written or read does not grow or shrink."""

_STILL = 0.001
"""Records a second; a lag that changes by less than that stays."""

_ROOMY = 120
"""Columns of a terminal that has room for rates beside everything else."""

PartitionKey = tuple[str, str, int]


class Sample(NamedTuple):
    """What one look saw: (group, topic, partition) → committed offset and end, at a time in seconds."""

    at: float
    offsets: Mapping[PartitionKey, tuple[int | None, int | None]]


_LAST: "weakref.WeakKeyDictionary[Session, Sample]" = weakref.WeakKeyDictionary()
"""The last look of each session: what a watch compares with."""


def _arrow(trend: str | None) -> str:
    return {"growing": "↑", "shrinking": "↓", "steady": "→"}.get(trend or "", "-")


def _rate(number: float | None) -> str:
    if not number:
        return "-" if number is None else "0"
    return f"{number:,.0f}" if number >= 10 else f"{number:,.1f}"


_RATES = (
    Column("read_rate", right=True, title="READ/S", show=_rate),
    Column("write_rate", right=True, title="WRITTEN/S", show=_rate),
    Column("trend", show=_arrow),
    Column("zero_in_ms", right=True, title="ZERO IN", show=show_lag_time),
)
_LAG = Column("lag", right=True, show=lambda lag: "-" if lag is None else f"{lag:,}")
_TIME = Column("time_lag_ms", right=True, title="TIME LAG", show=show_lag_time)
_MAX = Column("lag_max", right=True, wide=True)
_WORST = Column("worst", title="MOST IN")
_GROUP = Column("group")
_TOPIC = Column("topic")
_PARTITIONS = Column("partitions", right=True, title="PARTS")

_COLUMNS: dict[str, tuple[Column, ...]] = {
    "partition": (
        _GROUP,
        _TOPIC,
        Column("partition", right=True, title="PART"),
        Column("committed", right=True),
        Column("end", right=True),
        _LAG,
        _TIME,
        *_RATES,
        Column("client_id"),
        Column("host", wide=True),
        Column("member_id", wide=True),
        Column("instance_id", wide=True),
        Column("start", right=True, wide=True),
        Column("error", wide=True),
    ),
    "topic": (_GROUP, _TOPIC, _PARTITIONS, _LAG, _TIME, *_RATES, _WORST, _MAX),
    "member": (
        _GROUP,
        Column("client_id"),
        Column("host"),
        _PARTITIONS,
        _LAG,
        _TIME,
        *_RATES,
        _WORST,
        _MAX,
        Column("member_id", wide=True),
        Column("instance_id", wide=True),
    ),
    "group": (
        _GROUP,
        Column("state"),
        Column("members", right=True),
        Column("topics", right=True),
        _PARTITIONS,
        _LAG,
        _TIME,
        *_RATES,
        _WORST,
        _MAX,
    ),
}


async def lag(context: Context) -> None:
    """`pk groups lag`."""
    args = context.args
    by = args.by or ("partition" if args.group or args.groups else "group")
    fails = _condition(args.fail_if, by)
    admin = await context.admin()
    before = _last(context)
    if args.over is not None:
        _, rows = await _look(context, admin, times=False)
        before = _sample(rows)
        await trio.sleep(args.over)
    groups, rows = await _look(context, admin, times=True)
    now = _sample(rows)
    if context.session is not None:
        _LAST[context.session] = now
    _add_rates(rows, before, now)
    shown = rows if by == "partition" else _grouped(rows, by, groups)
    columns = _columns(context, by, groups, rated=before is not None)
    listing = Listing(columns, shown, lag_style)
    context.show(listing)
    if args.topics and not rows:
        context.say("There is no commit in what -t names, and nobody is assigned it.")
    if context.look.format in ("table", "wide") and len(rows) > 1 and by != "group":
        _say_totals(context, rows)
    if fails is not None:
        kept = narrow(listing, context.look._replace(columns=(), limit=None))
        _fail(context, [row for row in kept.rows if fails(row)], by)


def _columns(context: Context, by: str, groups: Sequence[Any], *, rated: bool) -> list[Column]:
    """The columns, all of them in JSON; in a table the rates only where they are known, and then for less of the rest."""
    look = context.look
    hidden = set() if rated else {column.key for column in _RATES}
    if by != "group" and len(groups) == 1:
        hidden.add("group")
    if rated and look.terminal and look.width < _ROOMY:
        hidden |= {"committed", "end", "client_id" if by == "partition" else "host", "worst"}
        hidden |= {"state", "members", "topics"}
    return [c._replace(wide=True) if c.key in hidden else c for c in _COLUMNS[by]]


def _condition(text: str | None, by: str) -> Callable[[Row], bool] | None:
    from pk.cli.output.where import WhereError, parse_where

    if text is None:
        return None
    try:
        return parse_where(text, [column.key for column in _COLUMNS[by]])
    except WhereError as e:
        raise Unusable(f"{str(e).replace('--where', '--fail-if', 1)}.") from None


async def _look(
    context: Context, admin: Admin, *, times: bool
) -> tuple[list[r.GroupDescription], list[dict[str, Any]]]:
    """The groups meant, and a row for each partition of theirs. Without a name, every group that reads what -t says."""
    args = context.args
    names = list(dict.fromkeys((*args.group, *args.groups)))
    if names and args.all_groups:
        raise Unusable("Name groups, or say --all-groups; not both.")
    named = bool(names)
    if not named:
        names = await committing_groups(context, admin)
    groups = await describe_existing(context, admin, names) if names else []
    by_group = await offset_rows(context, admin, groups, args.topics, times=times)
    found = [TopicPartition(r["topic"], r["partition"]) for rows in by_group.values() for r in rows]
    await check_topics(context, admin, found)
    if not named and args.topics:
        groups = [g for g in groups if by_group[g.group_id]]
    return groups, [row for g in groups for row in by_group[g.group_id]]


# How it goes.


def _key(row: Mapping[str, Any]) -> PartitionKey:
    return row["group"], row["topic"], row["partition"]


def _sample(rows: Iterable[Mapping[str, Any]]) -> Sample:
    return Sample(trio.current_time(), {_key(row): (row["committed"], row["end"]) for row in rows})


def _last(context: Context) -> Sample | None:
    """The look before, of a watch or of the shell, unless it is too old to say anything."""
    last = _LAST.get(context.session) if context.session is not None else None
    return last if last is not None and trio.current_time() - last.at < _STALE_S else None


def _add_rates(rows: Iterable[dict[str, Any]], before: Sample | None, now: Sample) -> None:
    """Adds to each row what is read and written a second, and where that leads."""
    for row in rows:
        then = before.offsets.get(_key(row)) if before is not None else None
        read = write = None
        if before is not None and then is not None and now.at > before.at:
            seconds = now.at - before.at
            read = _speed(then[0], row["committed"], seconds)
            write = _speed(then[1], row["end"], seconds)
        row |= outlook(row["lag"], read, write)


def _speed(before: int | None, now: int | None, seconds: float) -> float | None:
    """Records a second; None where it is not known, or where somebody moved the offset back."""
    if before is None or now is None or now < before:
        return None
    return (now - before) / seconds


def outlook(lag: int | None, read: float | None, write: float | None) -> dict[str, Any]:
    """Rates (records a second), `growing`, `shrinking` or `steady`, and the milliseconds until nothing is left.

    The last is None where it never comes to that, or nobody knows.
    """
    trend = zero_in_ms = None
    if lag is not None and read is not None and write is not None:
        net = read - write
        trend = "steady" if abs(net) <= max(_STEADY * max(read, write), _STILL) else None
        trend = trend or ("shrinking" if net > 0 else "growing")
        if lag == 0:
            zero_in_ms = 0
        elif trend == "shrinking":
            zero_in_ms = round(lag / net * 1000)
    return {"read_rate": read, "write_rate": write, "trend": trend, "zero_in_ms": zero_in_ms}


# Summed up.


def _grouped(
    rows: Sequence[Mapping[str, Any]], by: str, groups: Iterable[r.GroupDescription]
) -> list[dict[str, Any]]:
    """The rows summed up by topic, member or group."""
    names: dict[str, Callable[[Mapping[str, Any]], tuple[Any, ...]]] = {
        "topic": lambda row: (row["group"], row["topic"]),
        "member": lambda row: (row["group"], row["member_id"]),
        "group": lambda row: (row["group"],),
    }
    parts: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    heads: dict[tuple[Any, ...], dict[str, Any]] = {}
    for g in groups:
        if by == "group":
            heads[g.group_id,] = {"group": g.group_id, "state": g.state, "members": len(g.members)}
        elif by == "member":
            for m in sorted(g.members, key=lambda m: (m.client_id, m.member_id)):
                heads[g.group_id, m.member_id] = {
                    "group": g.group_id,
                    "client_id": m.client_id,
                    "host": m.client_host.lstrip("/"),
                    "member_id": m.member_id,
                    "instance_id": m.instance_id,
                }
    for row in rows:
        key = names[by](row)
        parts.setdefault(key, []).append(row)
        if key not in heads:
            heads[key] = {column.key: row.get(column.key) for column in _COLUMNS[by]}
    return [head | _sums(parts.get(key, [])) for key, head in heads.items()]


def _sums(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    lags = [row for row in rows if row["lag"] is not None]
    worst = max(lags, key=lambda row: row["lag"], default=None)
    total = sum(row["lag"] for row in lags) if lags else None
    return {
        "topics": len({row["topic"] for row in rows}),
        "partitions": len(rows),
        "lag": total,
        "lag_max": worst["lag"] if worst else None,
        "worst": f"{worst['topic']}/{worst['partition']}" if worst and worst["lag"] else None,
        "time_lag_ms": longest_lag(rows),
        **outlook(total, _total(lags, "read_rate"), _total(lags, "write_rate")),
    }


def _total(rows: Sequence[Mapping[str, Any]], key: str) -> float | None:
    known = [row[key] for row in rows if row[key] is not None]
    return sum(known) if known else None


def _say_totals(context: Context, rows: Sequence[Mapping[str, Any]]) -> None:
    sums = _sums(rows)
    text = f"Lag {sums['lag']:,}" if sums["lag"] is not None else "Lag unknown"
    text += f" in {count(sums['partitions'], 'partition')} of {count(sums['topics'], 'topic')}"
    if sums["time_lag_ms"]:
        text += f", {show_span(sums['time_lag_ms'])} behind"
    if sums["trend"]:
        text += f"; it is {sums['trend']}" if sums["trend"] != "steady" else "; it stays"
        if sums["zero_in_ms"]:
            text += f", and would be 0 in {show_span(sums['zero_in_ms'])}"
    context.say(f"{text}.")


def _fail(context: Context, rows: Sequence[Mapping[str, Any]], by: str) -> None:
    """Ends the command with 1 where rows meet the condition of --fail-if, and names them."""
    for row in rows[:20]:
        name = {
            "partition": f"{row['group']} {row.get('topic')}/{row.get('partition')}",
            "topic": f"{row['group']} {row.get('topic')}",
            "member": f"{row['group']} {row.get('client_id') or 'nobody'}",
            "group": str(row["group"]),
        }[by]
        time = row["time_lag_ms"]
        said = f", {show_span(time)} behind" if time else ""
        lag_ = "unknown" if row["lag"] is None else f"{row['lag']:,}"
        context.say(f"{name}: lag {lag_}{said}: {context.args.fail_if}.")
    if len(rows) > 20:
        context.say(f"… and {len(rows) - 20} more.")
    if rows:
        context.fail(CommandError(f"{count(len(rows), 'row')} met --fail-if."))
