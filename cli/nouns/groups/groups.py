"""`pk groups list`, `describe`, `delete` and `delete-offsets`."""

from collections.abc import Mapping, Sequence
from typing import Any

from pk.cli.cluster.groups import (
    EMPTY_STATES,
    active_refusal,
    apache_timeout,
    check_topics,
    commits_of,
    committing_groups,
    describe_existing,
    is_selected,
    lag_style,
    longest_lag,
    note_listing,
    offset_rows,
    selected,
    wanted_groups,
)
from pk.cli.cluster.topics import say_no_match, whole, words_of
from pk.cli.command_line.known_values import GROUP_STATES, GROUP_TYPES
from pk.cli.output.formats import Column, Document, Listing, Section
from pk.cli.positions.times import show_span
from pk.cli.runtime.context import Context, count, join, place_name
from pk.cli.runtime.exits import CommandError, Unusable
from pk.cli.runtime.failures import error_name, phrase
from pk.cli.undo import log as undo
from pk.cli.undo.offsets import Kept, remember
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin

_ROOMY = 120
"""Columns of a terminal that has room for member ids."""

_GROUPS = (
    Column("group"),
    Column("state"),
    Column("type"),
    Column("protocol", wide=True),
    Column("coordinator", right=True, wide=True),
)


async def list_groups(context: Context) -> None:
    """`pk groups list`."""
    args = context.args
    pattern = whole(args.pattern, "PATTERN") if args.pattern is not None else None
    states = words_of(args.state, GROUP_STATES, "--state")
    types = words_of(args.type, GROUP_TYPES, "--type")
    admin = await context.admin()
    listed = await admin.list_groups(states=states, types=types)
    if args.state or args.type:
        for broker, error in listed.errors.items():
            context.failed(error, f"groups of broker {broker}")
    else:
        note_listing(context, listed)
    groups = [
        g
        for g in sorted(listed.groups, key=lambda g: g.group_id)
        if pattern is None or pattern.fullmatch(g.group_id)
    ]
    if args.topics:
        reading = await _reading(context, admin, [g.group_id for g in groups])
        groups = [g for g in groups if g.group_id in reading]
    rows = [
        {
            "group": g.group_id,
            "state": g.state or None,
            "type": g.type or None,
            "protocol": g.protocol_type or None,
            "coordinator": g.coordinator_id,
        }
        for g in groups
    ]
    context.show(Listing(_GROUPS, rows))
    say_no_match(context, "group", pattern, (g.group_id for g in listed.groups))


async def _reading(context: Context, admin: Admin, names: Sequence[str]) -> set[str]:
    """Those of the groups that have a commit for, are assigned, or subscribe to one of the topics of -t."""
    wanted = selected(context.args.topics)
    answers = await admin.describe_groups(names) if names else {}
    groups = [g for g in answers.values() if isinstance(g, r.GroupDescription)]
    commits = await commits_of(context, admin, groups)
    found = set()
    for g in groups:
        tps = {*commits.get(g.group_id, ()), *(tp for m in g.members for tp in m.assignment)}
        topics = {topic for m in g.members for topic in m.subscribed_topics}
        if any(is_selected(tp, wanted) for tp in tps) or topics & wanted.keys():
            found.add(g.group_id)
    if not found:
        await check_topics(context, admin, ())
    return found


def show_lag_time(ms: int | None) -> str:
    return "-" if ms is None else "0" if ms == 0 else show_span(ms)


_OFFSETS = (
    Column("group"),
    Column("topic"),
    Column("partition", right=True, title="PART"),
    Column("committed", right=True),
    Column("end", right=True),
    Column("lag", right=True),
    Column("time_lag_ms", right=True, title="TIME LAG", show=show_lag_time),
    Column("client_id"),
    Column("host", wide=True),
    Column("member_id", wide=True),
    Column("instance_id", wide=True),
    Column("start", right=True, wide=True),
    Column("metadata", wide=True),
    Column("error", wide=True),
)
_MEMBERS = (
    Column("group"),
    Column("client_id"),
    Column("host"),
    Column("partitions", right=True, title="PARTS"),
    Column("assignment", show=lambda a: short_assignment(a)),
    Column("member_id"),
    Column("instance_id"),
    Column("member_epoch", right=True, wide=True),
    Column("subscribed", wide=True),
    Column("target", wide=True, show=lambda a: short_assignment(a)),
    Column("rack", wide=True),
)


def short_assignment(assignment: Sequence[Mapping[str, Any]] | None) -> str:
    """`orders:0,1,2 users:0`."""
    by_topic: dict[str, list[str]] = {}
    for tp in assignment or ():
        by_topic.setdefault(tp["topic"], []).append(str(tp["partition"]))
    return " ".join(f"{t}:{','.join(ps)}" for t, ps in by_topic.items()) or "-"


async def describe(context: Context) -> None:
    """`pk groups describe`."""
    args = context.args
    apache_timeout(context)
    if args.members + args.state + args.offsets > 1:
        raise Unusable("--members, --state and --offsets show different things; say one.")
    admin = await context.admin()
    names = await wanted_groups(context, admin)
    groups = await describe_existing(context, admin, names) if names else []
    if args.members:
        show_members(context, groups)
        return
    offsets = await offset_rows(context, admin, groups, args.topics, times=True)
    found = [TopicPartition(r["topic"], r["partition"]) for rows in offsets.values() for r in rows]
    await check_topics(context, admin, found)
    states = [_state_row(g, offsets[g.group_id]) for g in groups]
    if args.state:
        context.show(Listing(_STATES, states))
        return
    rows = [row for g in groups for row in offsets[g.group_id]]
    listing = Listing(_OFFSETS, rows, lag_style)
    data = [
        {
            **state,
            "members": [_without(row, "group") for row in member_rows(g)],
            "offsets": [_without(row, "group") for row in offsets[g.group_id]],
        }
        for g, state in zip(groups, states, strict=True)
    ]
    sections = []
    for g, state in zip(groups, states, strict=True):
        lag = "-" if state["lag"] is None else f"{state['lag']:,}"
        title = f"{g.group_id}: {state['state']}, {count(state['members'], 'member')}, lag {lag}"
        if state["time_lag_ms"]:
            title += f", {show_span(state['time_lag_ms'])} behind"
        sections.append(Section(title, Listing(_OFFSETS[1:], offsets[g.group_id], lag_style)))
    context.show_document(Document(data, sections, listing))


async def members(context: Context) -> None:
    """`pk groups members`."""
    args = context.args
    admin = await context.admin()
    named = bool(args.group or args.groups)
    names = (
        await wanted_groups(context, admin) if named else await committing_groups(context, admin)
    )
    groups = await describe_existing(context, admin, names) if names else []
    show_members(context, groups)
    if named and context.look.format in ("table", "wide"):
        for g in groups:
            if not g.members:
                context.say(f"Group {g.group_id} is {g.state}: it has no members.")


def show_members(context: Context, groups: Sequence[r.GroupDescription]) -> None:
    """The members of groups, and what they are assigned."""
    look = context.look
    rows = [row for g in groups for row in member_rows(g)]
    hidden = {"group"} if len(groups) == 1 else set()
    if look.terminal and look.width < _ROOMY:
        hidden.add("member_id")
    if not any(row["instance_id"] for row in rows):
        hidden.add("instance_id")
    columns = [c._replace(wide=True) if c.key in hidden else c for c in _MEMBERS]
    context.show(Listing(columns, rows))


def _without(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k != key}


_STATES = (
    Column("group"),
    Column("state"),
    Column("type", wide=True),
    Column("members", right=True),
    Column("partitions", right=True, title="PARTS"),
    Column("lag", right=True),
    Column("time_lag_ms", right=True, title="TIME LAG", show=show_lag_time),
    Column("assignor"),
    Column("coordinator"),
    Column("group_epoch", right=True, wide=True),
    Column("assignment_epoch", right=True, wide=True),
)


def _state_row(group: r.GroupDescription, offsets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    lags = [row["lag"] for row in offsets if row["lag"] is not None]
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type or None,
        "members": len(group.members),
        "partitions": len(offsets),
        "lag": sum(lags) if lags else None,
        "time_lag_ms": longest_lag(offsets),
        "assignor": group.assignor or None,
        "coordinator": f"{group.coordinator.node_id} ({group.coordinator.address})",
        "group_epoch": None if group.group_epoch < 0 else group.group_epoch,
        "assignment_epoch": None if group.assignment_epoch < 0 else group.assignment_epoch,
    }


def member_rows(group: r.GroupDescription) -> list[dict[str, Any]]:
    """A row for each member."""
    return [
        {
            "group": group.group_id,
            "client_id": m.client_id,
            "host": m.client_host.lstrip("/"),
            "partitions": len(m.assignment),
            "assignment": [tp._asdict() for tp in sorted(m.assignment)],
            "member_id": m.member_id,
            "instance_id": m.instance_id,
            "member_epoch": None if m.member_epoch < 0 else m.member_epoch,
            "subscribed": [
                *m.subscribed_topics,
                *([m.subscribed_regex] if m.subscribed_regex else []),
            ],
            "target": None
            if m.target_assignment is None
            else [tp._asdict() for tp in sorted(m.target_assignment)],
            "rack": m.rack_id,
        }
        for m in sorted(group.members, key=lambda m: (m.client_id, m.member_id))
    ]


_RESULT = (
    Column("group"),
    Column("offsets", right=True),
    Column("result"),
    Column("error", wide=True),
)


async def delete(context: Context) -> None:
    """`pk groups delete`."""
    args = context.args
    apache_timeout(context)
    admin = await context.admin()
    names = await wanted_groups(context, admin)
    groups = await describe_existing(context, admin, names)
    active = [g for g in groups if g.state not in EMPTY_STATES]
    if active:
        raise active_refusal(active[0], "a group is deleted")
    if not groups:
        return
    there = [g.group_id for g in groups]
    commits = await commits_of(context, admin, groups)
    rows = [
        {
            "group": n,
            "offsets": len(commits.get(n, ())),
            "result": "would be deleted",
            "error": None,
        }
        for n in there
    ]
    if args.dry_run:
        context.show(Listing(_RESULT, rows))
        return
    total = sum(row["offsets"] for row in rows)
    context.say(
        f"This deletes {count(len(there), 'group')} with {count(total, 'committed offset')} from "
        f"{context.settings.cluster_name}: {join(there)}."
    )
    await context.agree("Delete?", name=there[0] if len(there) == 1 else context.settings.bootstrap)
    kept = await keep_deleted(context, admin, commits)
    answers = await admin.delete_groups(there)
    for row in rows:
        row |= _result(context, row["group"], answers[row["group"]])
    context.show(Listing(_RESULT, rows))
    _say_undo(context, kept, any(answers[name] is None for name in there))


async def keep_deleted(
    context: Context, admin: Admin, commits: Mapping[str, Mapping[TopicPartition, object]]
) -> str | None:
    """Keeps commits that are about to be deleted; what `pk undo` is to be told, or None where there were none."""
    kept = [
        Kept(group, tp, commit.offset, commit.leader_epoch, commit.metadata, None)
        for group, found in commits.items()
        for tp, commit in found.items()
        if isinstance(commit, r.OffsetAndMetadata)
    ]
    if not kept:
        return None
    names = list(dict.fromkeys(k.group for k in kept))
    said = f"deleted {count(len(kept), 'committed offset')} of {join(names, 3)}"
    return await remember(context, admin, kept, said)


def _say_undo(context: Context, kept: str | None, done: bool) -> None:
    if kept is None:
        return
    if done:
        context.say(undo.how_to_undo(kept))
    else:
        undo.forget(kept)


def _result(context: Context, group: str, error: Exception | None) -> dict[str, Any]:
    if error is not None:
        context.failed(error, group)
    return {
        "result": phrase(error) if error else "deleted",
        "error": error_name(error) if error else None,
    }


_OFFSET_RESULT = (
    Column("group"),
    Column("topic"),
    Column("partition", right=True),
    Column("committed", right=True),
    Column("result"),
    Column("error", wide=True),
)


async def delete_offsets(context: Context) -> None:
    """`pk groups delete-offsets`."""
    args = context.args
    apache_timeout(context)
    wanted = selected(args.topics)
    if not wanted:
        raise Unusable("Say for which topics: -t TOPIC, or -t TOPIC:0,1.")
    admin = await context.admin()
    names = await wanted_groups(context, admin)
    if len(names) != 1:
        raise Unusable("delete-offsets takes one group.")
    groups = await describe_existing(context, admin, names)
    if not groups:
        return
    found = (await commits_of(context, admin, groups)).get(names[0], {})
    commits = {tp: c for tp, c in sorted(found.items()) if is_selected(tp, wanted)}
    if not commits:
        raise CommandError(f"Group {names[0]} has committed nothing for {join(list(args.topics))}.")
    kept = None
    if not args.dry_run:
        context.say(
            f"This deletes the committed offsets of group {names[0]} for {join(list(map(str, commits)))}."
        )
        await context.agree("Delete?", name=names[0])
        kept = await keep_deleted(context, admin, {names[0]: commits})
    answers = {} if args.dry_run else await admin.delete_group_offsets(names[0], commits)
    rows = []
    for tp, commit in commits.items():
        error = answers.get(tp)
        if error is not None:
            context.failed(error, place_name(tp))
        rows.append(
            {
                "group": names[0],
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": commit.offset if isinstance(commit, r.OffsetAndMetadata) else None,
                "result": phrase(error)
                if error
                else "would be deleted"
                if args.dry_run
                else "deleted",
                "error": error_name(error) if error else None,
            }
        )
    context.show(Listing(_OFFSET_RESULT, rows))
    _say_undo(context, kept, any(answers.get(tp) is None for tp in commits))
