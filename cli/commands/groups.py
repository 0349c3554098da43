"""`pk groups list`, `describe`, `delete` and `delete-offsets`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pk.cli.commands.common import topic_partitions, whole
from pk.cli.context import Context, count, join
from pk.cli.exits import CommandError, Refused, Unusable
from pk.cli.failures import phrase
from pk.cli.grammar import nearest
from pk.cli.names import remember
from pk.cli.output import Column, Document, Listing, Row, Section
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin

_GROUPS = (
    Column("group"),
    Column("state"),
    Column("type"),
    Column("protocol", wide=True),
    Column("coordinator", right=True, wide=True),
)
EMPTY_STATES = frozenset(("Empty", "Dead"))


async def group_names(context: Context, admin: Admin) -> list[str]:
    """The names of all groups; kept for completion. Brokers that do not answer are told and noted."""
    listed = await admin.list_groups()
    for broker, error in listed.errors.items():
        context.failed(error, f"groups of broker {broker}")
    names = sorted(g.group_id for g in listed.groups)
    remember(context.settings.bootstrap, "group", names)
    return names


async def wanted_groups(context: Context, admin: Admin) -> list[str]:
    """The groups that the command names. Raises Unusable where it names none."""
    args = context.args
    names = [*args.group, *args.groups]
    if args.values().get("all_groups"):
        if names:
            raise Unusable("Name groups, or say --all-groups; not both.")
        return await group_names(context, admin)
    if not names:
        raise Unusable("Name a group; `pk groups list` shows which there are.")
    return list(dict.fromkeys(names))


async def list_groups(context: Context) -> None:
    """`pk groups list`."""
    args = context.args
    pattern = whole(args.pattern, "PATTERN") if args.pattern is not None else None
    admin = await context.admin()
    listed = await admin.list_groups(states=args.state, types=args.type)
    for broker, error in listed.errors.items():
        context.failed(error, f"groups of broker {broker}")
    if not args.state and not args.type:
        remember(context.settings.bootstrap, "group", (g.group_id for g in listed.groups))
    rows = [
        {
            "group": g.group_id,
            "state": g.state or None,
            "type": g.type or None,
            "protocol": g.protocol_type or None,
            "coordinator": g.coordinator_id,
        }
        for g in sorted(listed.groups, key=lambda g: g.group_id)
        if pattern is None or pattern.fullmatch(g.group_id)
    ]
    context.show(Listing(_GROUPS, rows))


_OFFSETS = (
    Column("group"),
    Column("topic"),
    Column("partition", right=True),
    Column("committed", right=True),
    Column("end", right=True),
    Column("lag", right=True),
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
    Column("member_id"),
    Column("client_id"),
    Column("host"),
    Column("partitions", right=True),
    Column("assignment", show=lambda a: _short(a)),
    Column("instance_id", wide=True),
    Column("member_epoch", right=True, wide=True),
    Column("subscribed", wide=True),
)


def _short(assignment: Sequence[Mapping[str, Any]] | None) -> str:
    """`orders:0,1,2 users:0`."""
    by_topic: dict[str, list[str]] = {}
    for tp in assignment or ():
        by_topic.setdefault(tp["topic"], []).append(str(tp["partition"]))
    return " ".join(f"{t}:{','.join(ps)}" for t, ps in by_topic.items()) or "-"


async def unknown_group(context: Context, admin: Admin, name: str) -> CommandError:
    """The error for a group that does not exist, with the nearest names."""
    near = nearest(name, await group_names(context, admin))
    hint = (
        f"did you mean {' or '.join(near)}?" if near else "`pk groups list` shows which there are."
    )
    return CommandError(f"There is no group {name!r}; {hint}")


async def describe_existing(
    context: Context, admin: Admin, names: Sequence[str]
) -> list[r.GroupDescription]:
    """The groups that exist; the others are told and noted. A group is Dead to a broker that never saw it."""
    answers = await admin.describe_groups(names)
    found = []
    for name in names:
        answer = answers[name]
        if isinstance(answer, r.GroupDescription) and answer.state != "Dead":
            found.append(answer)
        elif isinstance(answer, r.GroupDescription) or (
            isinstance(answer, KafkaError) and answer.code == ErrorCode.GROUP_ID_NOT_FOUND
        ):
            context.failed(await unknown_group(context, admin, name), name)
        else:
            context.failed(answer, name)
    return found


async def describe(context: Context) -> None:
    """`pk groups describe`."""
    args = context.args
    if args.members + args.state + args.offsets > 1:
        raise Unusable("--members, --state and --offsets show different things; say one.")
    admin = await context.admin()
    names = await wanted_groups(context, admin)
    groups = await describe_existing(context, admin, names) if names else []
    if args.members:
        rows = [row for g in groups for row in _member_rows(g)]
        context.show(Listing(_MEMBERS, rows))
        return
    offsets = {g.group_id: await offset_rows(context, admin, g, args.topics) for g in groups}
    states = [_state_row(g, offsets[g.group_id]) for g in groups]
    if args.state:
        context.show(Listing(_STATES, states))
        return
    rows = [row for g in groups for row in offsets[g.group_id]]
    listing = Listing(_OFFSETS, rows, _lag_style)
    data = [
        {
            **state,
            "members": [_without(row, "group") for row in _member_rows(g)],
            "offsets": [_without(row, "group") for row in offsets[g.group_id]],
        }
        for g, state in zip(groups, states, strict=True)
    ]
    sections = []
    for g, state in zip(groups, states, strict=True):
        title = (
            f"{g.group_id}: {state['state']}, {count(state['members'], 'member')}, "
            f"lag {state['lag'] if state['lag'] is not None else '-'}"
        )
        sections.append(Section(title, Listing(_OFFSETS[1:], offsets[g.group_id], _lag_style)))
    context.show_document(Document(data, sections, listing))


def _without(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k != key}


def _lag_style(row: Row) -> str | None:
    return "yellow" if (row.get("lag") or 0) > 0 else None


_STATES = (
    Column("group"),
    Column("state"),
    Column("type"),
    Column("members", right=True),
    Column("partitions", right=True),
    Column("lag", right=True),
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
        "assignor": group.assignor or None,
        "coordinator": f"{group.coordinator.node_id} ({group.coordinator.address})",
        "group_epoch": None if group.group_epoch < 0 else group.group_epoch,
        "assignment_epoch": None if group.assignment_epoch < 0 else group.assignment_epoch,
    }


def _member_rows(group: r.GroupDescription) -> list[dict[str, Any]]:
    return [
        {
            "group": group.group_id,
            "member_id": m.member_id,
            "client_id": m.client_id,
            "host": m.client_host,
            "partitions": len(m.assignment),
            "assignment": [tp._asdict() for tp in sorted(m.assignment)],
            "instance_id": m.instance_id,
            "member_epoch": None if m.member_epoch < 0 else m.member_epoch,
            "subscribed": list(m.subscribed_topics),
        }
        for m in sorted(group.members, key=lambda m: (m.client_id, m.member_id))
    ]


def selected(topics: Iterable[str]) -> dict[str, list[int] | None]:
    """Topic → the partitions asked for (None: all), from `-t topic:0,1`."""
    wanted: dict[str, list[int] | None] = {}
    for text in topics:
        name, numbers = topic_partitions(text)
        had = wanted.get(name, [])
        wanted[name] = None if numbers is None or had is None else [*had, *numbers]
    return wanted


def is_selected(tp: TopicPartition, wanted: Mapping[str, list[int] | None]) -> bool:
    if not wanted:
        return True
    numbers = wanted.get(tp.topic, [])
    return numbers is None or tp.partition in numbers


async def offset_rows(
    context: Context, admin: Admin, group: r.GroupDescription, topics: Iterable[str]
) -> list[dict[str, Any]]:
    """A row for each partition that the group has a commit for or is assigned, with its lag."""
    wanted = selected(topics)
    commits = await admin.list_group_offsets(group.group_id)
    owners = {tp: m for m in group.members for tp in m.assignment}
    tps = sorted(tp for tp in {*commits, *owners} if is_selected(tp, wanted))
    starts = await admin.list_offsets(dict.fromkeys(tps, r.EARLIEST)) if tps else {}
    ends = await admin.list_offsets(dict.fromkeys(tps, r.LATEST)) if tps else {}
    rows = []
    for tp in tps:
        start, end, commit, owner = starts[tp], ends[tp], commits.get(tp), owners.get(tp)
        error = next((a for a in (commit, end) if isinstance(a, Exception)), None)
        if error is not None:
            context.failed(error, f"{group.group_id} {tp}")
        committed = commit.offset if isinstance(commit, r.OffsetAndMetadata) else None
        last = end.offset if isinstance(end, r.ListedOffset) else None
        lag = None if committed is None or last is None else max(last - committed, 0)
        rows.append(
            {
                "group": group.group_id,
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": committed,
                "end": last,
                "lag": lag,
                "client_id": owner.client_id if owner else None,
                "host": owner.client_host if owner else None,
                "member_id": owner.member_id if owner else None,
                "instance_id": owner.instance_id if owner else None,
                "start": start.offset if isinstance(start, r.ListedOffset) else None,
                "metadata": commit.metadata or None
                if isinstance(commit, r.OffsetAndMetadata)
                else None,
                "error": phrase(error) if error else None,
            }
        )
    return rows


def active_refusal(group: r.GroupDescription, what: str) -> Refused:
    """The refusal for a group that has members, naming them."""
    names = [f"{m.client_id} ({m.client_host.lstrip('/')}, {m.member_id})" for m in group.members]
    who = f"; its members are {join(names)}" if names else ""
    return Refused(
        f"Group {group.group_id} is {group.state}, and {what} only while it is empty{who}. Stop them first."
    )


_RESULT = (Column("group"), Column("result"), Column("error", wide=True))


async def delete(context: Context) -> None:
    """`pk groups delete`."""
    args = context.args
    admin = await context.admin()
    names = await wanted_groups(context, admin)
    groups = await describe_existing(context, admin, names)
    active = [g for g in groups if g.state not in EMPTY_STATES]
    if active:
        raise active_refusal(active[0], "a group is deleted")
    if not groups:
        return
    there = [g.group_id for g in groups]
    if args.dry_run:
        context.show(
            Listing(
                _RESULT, [{"group": n, "result": "would be deleted", "error": None} for n in there]
            )
        )
        return
    context.say(
        f"This deletes {count(len(there), 'group')} with all committed offsets from "
        f"{context.settings.cluster_name}: {join(there)}."
    )
    await context.agree("Delete?", name=there[0] if len(there) == 1 else context.settings.bootstrap)
    answers = await admin.delete_groups(there)
    context.show(Listing(_RESULT, [_result(context, n, answers[n]) for n in there]))


def _result(context: Context, group: str, error: Exception | None) -> dict[str, Any]:
    if error is not None:
        context.failed(error, group)
    name = error.name if isinstance(error, KafkaError) else type(error).__name__ if error else None
    return {"group": group, "result": phrase(error) if error else "deleted", "error": name}


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
    commits = await admin.list_group_offsets(names[0])
    tps = sorted(tp for tp, c in commits.items() if c is not None and is_selected(tp, wanted))
    if not tps:
        raise CommandError(f"Group {names[0]} has committed nothing for {join(list(args.topics))}.")
    if not args.dry_run:
        context.say(
            f"This deletes the committed offsets of group {names[0]} for {join(list(map(str, tps)))}."
        )
        await context.agree("Delete?", name=names[0])
    answers = {} if args.dry_run else await admin.delete_group_offsets(names[0], tps)
    rows = []
    for tp in tps:
        error, commit = answers.get(tp), commits[tp]
        if error is not None:
            context.failed(error, str(tp))
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
                "error": error.name if isinstance(error, KafkaError) else None,
            }
        )
    context.show(Listing(_OFFSET_RESULT, rows))
