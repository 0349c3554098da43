"""`pk groups lag`: how far groups lag, in records and in time, whether they catch up, and when.

Rates need two samples. `--over 10` takes both itself; `-w`, and a second `groups lag` in the shell
within a minute, use the previous one. `--fail-if` turns the answer into an exit code for
monitoring.
"""

import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import trio

from pk.cli.cluster.groups import (
    SHARE,
    check_topics,
    describe_existing,
    group_names,
    lag_style,
    longest_lag,
    offset_rows,
    unread_from,
    unused_offset_columns,
)
from pk.cli.cluster.offset_row import OffsetRow
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.groups.options import GroupsLag
from pk.cli.nouns.groups.rows import (
    GroupLag,
    MemberLag,
    Outlook,
    PartitionLag,
    TopicLag,
)
from pk.cli.output.formats import Column, Listing, Row, narrow
from pk.cli.output.rows import columns, names, part_of, words_of
from pk.cli.phrases import count
from pk.cli.positions.times import show_span
from pk.cli.runtime.context import Context
from pk.cli.runtime.session import Session
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin

_STALE_S = 60.0
"""A sample older than this does not help to compute the current rates."""

_STEADY = 0.02
"""A lag is steady if it changes by less than this share of the records written or read."""

_STILL = 0.001
"""Records per second; a lag that changes by less is steady."""

_ROOMY = 120
"""The width, in columns, of a terminal that has space for the rates beside all other columns."""

PartitionKey = tuple[str, str, int]


class Sample(NamedTuple):
    """(group, topic, partition) → the offset of the next unread record and the log end, at a time
    in seconds."""

    at: float
    offsets: Mapping[PartitionKey, tuple[int | None, int | None]]


_LAST: "weakref.WeakKeyDictionary[Session, Sample]" = weakref.WeakKeyDictionary()
"""Session → its last sample, with which a watch compares."""


_ROWS: Mapping[str, type] = {
    "partition": PartitionLag,
    "topic": TopicLag,
    "member": MemberLag,
    "group": GroupLag,
}
"""--by → the type of a row."""


async def lag(context: Context, options: GroupsLag) -> None:
    """Run `pk groups lag`."""
    by = options.by or ("partition" if options.group or options.groups else "group")
    fails = _condition(options.fail_if, by)
    admin = await context.admin()
    before = _last(context)
    if options.over is not None:
        _, rows = await _groups_and_offsets(context, admin, options, times=False)
        before = _sample(rows)
        await trio.sleep(options.over.s)
    groups, rows = await _groups_and_offsets(context, admin, options, times=True)
    now = _sample(rows)
    if context.session is not None:
        _LAST[context.session] = now
    lags = [_with_rates(row, before, now) for row in rows]
    shown: Sequence[Row] = lags if by == "partition" else _grouped(lags, by, groups)
    unused = unused_offset_columns(g.type == SHARE for g in groups)
    listing = Listing(
        _columns(context, by, groups, unused, rated=before is not None), shown, lag_style
    )
    context.show(listing)
    if options.topics and not rows:
        context.say(
            "The group has no committed offsets for the topics of -t, and no member reads them."
        )
    if context.output.format in ("table", "wide") and len(lags) > 1 and by != "group":
        _say_totals(context, lags)
    if options.fail_if is not None and fails is not None:
        kept = narrow(listing, context.output._replace(columns=(), limit=None))
        _fail(context, options.fail_if, [row for row in kept.rows if fails(row)], by)


def _columns(
    context: Context,
    by: str,
    groups: Sequence[r.GroupDescription],
    unused: Collection[str],
    *,
    rated: bool,
) -> Sequence[Column]:
    """The columns. JSON has all of them. A table has the rates only if they are known, and leaves
    out other columns to make room for them."""
    look = context.output
    wide = {*unused, *(() if rated else names(Outlook))}
    if by != "group" and len(groups) == 1:
        wide.add("group")
    if rated and look.terminal and look.width < _ROOMY:
        wide |= {
            "committed",
            "start_offset",
            "end",
            "client_id" if by == "partition" else "host",
            "worst",
        }
        wide |= {"state", "members", "topics"}
    return columns(_ROWS[by], wide=wide)


def _condition(text: str | None, by: str) -> Callable[[Row], bool] | None:
    from pk.cli.output.where import WhereError, parse_where

    if text is None:
        return None
    try:
        return parse_where(text, names(_ROWS[by]), words_of(_ROWS[by]))
    except WhereError as e:
        raise Unusable(f"{str(e).replace('--where', '--fail-if', 1)}.") from None


async def _groups_and_offsets(
    context: Context, admin: Admin, options: GroupsLag, *, times: bool
) -> tuple[list[r.GroupDescription], list[OffsetRow]]:
    """The named groups, and a row for each of their partitions; if none is named, every group that
    reads the topics of -t.

    `times` adds the age of the next unread record to the rows.
    """
    named = list(dict.fromkeys((*options.group, *options.groups)))
    if named and options.all_groups:
        raise Unusable("Give groups or --all-groups, not both.")
    wanted = named or await group_names(context, admin)
    groups = await describe_existing(context, admin, wanted) if wanted else []
    by_group = await offset_rows(context, admin, groups, options.topics, times=times)
    found = [
        TopicPartition(row["topic"], row["partition"]) for rows in by_group.values() for row in rows
    ]
    await check_topics(context, admin, options.topics, found)
    if not named and options.topics:
        groups = [g for g in groups if by_group[g.group_id]]
    return groups, [row for g in groups for row in by_group[g.group_id]]


# Rates.


def _key(row: OffsetRow) -> PartitionKey:
    return row["group"], row["topic"], row["partition"]


def _sample(rows: Iterable[OffsetRow]) -> Sample:
    return Sample(trio.current_time(), {_key(row): (unread_from(row), row["end"]) for row in rows})


def _last(context: Context) -> Sample | None:
    """The previous sample, of a watch or of the shell, unless it is too old."""
    last = _LAST.get(context.session) if context.session is not None else None
    return last if last is not None and trio.current_time() - last.at < _STALE_S else None


def _with_rates(row: OffsetRow, before: Sample | None, now: Sample) -> PartitionLag:
    """A row with the records read and written per second since the sample `before`."""
    then = before.offsets.get(_key(row)) if before is not None else None
    read = write = None
    if before is not None and then is not None and now.at > before.at:
        seconds = now.at - before.at
        read = _speed(then[0], unread_from(row), seconds)
        write = _speed(then[1], row["end"], seconds)
    return part_of(PartitionLag, {**row, **outlook(row["lag"], read, write)})


def _speed(before: int | None, now: int | None, seconds: float) -> float | None:
    """Records per second; None if it is not known, or if the offset was moved back."""
    if before is None or now is None or now < before:
        return None
    return (now - before) / seconds


def outlook(lag: int | None, read: float | None, write: float | None) -> Outlook:
    """The trend of a lag. `read` and `write` are in records per second.

    The time until the lag is 0 is None if it does not shrink, or if it cannot be known.
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


# Sums by topic, member or group.


def _grouped(
    lags: Sequence[PartitionLag], by: str, groups: Iterable[r.GroupDescription]
) -> Sequence[TopicLag] | Sequence[MemberLag] | Sequence[GroupLag]:
    """The sums of the rows by topic, member or group."""
    if by == "topic":
        return _by_topic(lags)
    return _by_member(lags, groups) if by == "member" else _by_group(lags, groups)


def _by_topic(lags: Sequence[PartitionLag]) -> list[TopicLag]:
    parts: dict[tuple[str, str], list[PartitionLag]] = {}
    for row in lags:
        parts.setdefault((row["group"], row["topic"]), []).append(row)
    return [
        {"group": group, "topic": topic, **_lag_sums(rows)}
        for (group, topic), rows in parts.items()
    ]


def _by_member(
    lags: Sequence[PartitionLag], groups: Iterable[r.GroupDescription]
) -> list[MemberLag]:
    """A row for each member, even without partitions, and one for the partitions without a
    member."""
    parts: dict[tuple[str, str | None], list[PartitionLag]] = {}
    found: list[MemberLag] = []
    for row in lags:
        parts.setdefault((row["group"], row["member_id"]), []).append(row)
    for g in groups:
        for m in sorted(g.members, key=lambda m: (m.client_id, m.member_id)):
            found.append(
                {
                    "group": g.group_id,
                    "client_id": m.client_id,
                    "host": m.client_host.lstrip("/"),
                    "member_id": m.member_id,
                    "instance_id": m.instance_id,
                    **_lag_sums(parts.pop((g.group_id, m.member_id), [])),
                }
            )
    for (group, member_id), rows in parts.items():
        first = rows[0]
        found.append(
            {
                "group": group,
                "client_id": first["client_id"],
                "host": first["host"],
                "member_id": member_id,
                "instance_id": first["instance_id"],
                **_lag_sums(rows),
            }
        )
    return found


def _by_group(lags: Sequence[PartitionLag], groups: Iterable[r.GroupDescription]) -> list[GroupLag]:
    parts: dict[str, list[PartitionLag]] = {}
    for row in lags:
        parts.setdefault(row["group"], []).append(row)
    return [
        {
            "group": g.group_id,
            "state": g.state,
            "members": len(g.members),
            "topics": len({row["topic"] for row in parts.get(g.group_id, [])}),
            **_lag_sums(parts.get(g.group_id, [])),
        }
        for g in groups
    ]


class _LagSums(Outlook):
    partitions: int
    lag: int | None
    time_lag_ms: int | None
    worst: str | None
    lag_max: int | None


def _lag_sums(rows: Sequence[PartitionLag]) -> _LagSums:
    """The sums over several partitions."""
    known = [(row["lag"], row) for row in rows if row["lag"] is not None]
    total = sum(lag for lag, _ in known) if known else None
    most, worst = max(known, key=lambda each: each[0], default=(None, None))
    read = [row["read_rate"] for _, row in known if row["read_rate"] is not None]
    write = [row["write_rate"] for _, row in known if row["write_rate"] is not None]
    return {
        "partitions": len(rows),
        "lag": total,
        "time_lag_ms": longest_lag(rows),
        **outlook(total, sum(read) if read else None, sum(write) if write else None),
        "worst": f"{worst['topic']}/{worst['partition']}" if worst and most else None,
        "lag_max": most,
    }


def _say_totals(context: Context, rows: Sequence[PartitionLag]) -> None:
    sums = _lag_sums(rows)
    topics = len({row["topic"] for row in rows})
    text = f"Lag {sums['lag']:,}" if sums["lag"] is not None else "Lag unknown"
    text += f" in {count(sums['partitions'], 'partition')} of {count(topics, 'topic')}"
    if sums["time_lag_ms"]:
        text += f", {show_span(sums['time_lag_ms'])} behind"
    if sums["trend"]:
        text += f"; it is {sums['trend']}" if sums["trend"] != "steady" else "; it stays"
        if sums["zero_in_ms"]:
            text += f", and would be 0 in {show_span(sums['zero_in_ms'])}"
    context.say(f"{text}.")


def _fail(context: Context, condition: str, rows: Sequence[Row], by: str) -> None:
    """Make the exit code 1 if rows meet the condition of --fail-if, and name them."""
    for row in rows[:20]:
        name = {
            "partition": f"{row['group']} {row.get('topic')}/{row.get('partition')}",
            "topic": f"{row['group']} {row.get('topic')}",
            "member": f"{row['group']} {row.get('client_id') or 'none'}",
            "group": str(row["group"]),
        }[by]
        time = row["time_lag_ms"]
        behind = f", {show_span(time)} behind" if time else ""
        lag_ = "unknown" if row["lag"] is None else f"{row['lag']:,}"
        context.say(f"{name}: lag {lag_}{behind}: {condition}.")
    if len(rows) > 20:
        context.say(f"… and {len(rows) - 20} more.")
    if rows:
        context.fail(CommandError(f"{count(len(rows), 'row')} met --fail-if."))
