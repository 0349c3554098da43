"""Shared by the commands for groups: selects groups, and gets their committed offsets and their
lag.

Everything is requested for many groups at once, with a request per coordinator, and for all
partitions at once, with a request per leader: two thousand groups take no more round trips than
two.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pk.cli.cluster.offset_row import OffsetRow
from pk.cli.cluster.topics import check_partitions, existing_topics, topic_partitions
from pk.cli.exits import CommandError, Refused, Unusable
from pk.cli.output.formats import Row
from pk.cli.phrases import join, partition_name
from pk.cli.positions.resolve import Listed, bounds_of, now_ms
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name
from pk.cli.runtime.name_cache import remember, remember_members
from pk.cli.runtime.results import succeeded
from pk.core.errors import ErrorCode, KafkaError
from pk.core.nearest import did_you_mean
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers

EMPTY_STATES = frozenset(("Empty", "Dead"))
SHARE = "Share"
"""The type of groups that commit no offsets: share coordinators store their start offsets
(KIP-932)."""

_WITHIN_MS = 500
"""The precision of a lag in time: records that are closer together were mostly sent in one
batch."""

Commits = Answers[TopicPartition, r.OffsetAndMetadata] | Answers[TopicPartition, r.ShareGroupOffset]
NO_COMMITS: Final = Answers[TopicPartition, r.OffsetAndMetadata]()


def note_listing(context: Context, listed: r.ListedGroups) -> None:
    """Report brokers that did not answer, and keep the names for completion."""
    for broker, error in listed.errors.items():
        context.failed(error, f"groups of broker {broker}")
    remember(context.settings.bootstrap, "group", (g.group_id for g in listed.groups))


async def group_names(context: Context, admin: Admin) -> list[str]:
    """The names of all groups; kept for completion. Reports brokers that do not answer."""
    listed = await admin.list_groups()
    note_listing(context, listed)
    return sorted(g.group_id for g in listed.groups)


async def wanted_groups(
    context: Context, admin: Admin, named: Sequence[str], *, every: bool
) -> list[str]:
    """The groups `named` or, with `every`, all groups. Raises Unusable if both are given, or
    neither."""
    if every:
        if named:
            raise Unusable("Give groups or --all-groups, not both.")
        return await group_names(context, admin)
    if not named:
        raise Unusable("Give a group; `pk groups list` lists groups.")
    return list(dict.fromkeys(named))


def wanted_group(named: Sequence[str], command: str) -> str:
    """The only group named. Raises Unusable if there is none, or more than one."""
    names = list(dict.fromkeys(named))
    if not names:
        raise Unusable("Give a group; `pk groups list` lists groups.")
    if len(names) > 1:
        raise Unusable(f"{command} takes one group.")
    return names[0]


def apache_timeout(context: Context, timeout_ms: int | None) -> None:
    """Apply Apache's --timeout: the time, in milliseconds, that the cluster may take for the whole
    command."""
    if timeout_ms is not None:
        settings = context.settings
        given = {**settings.given, "default.api.timeout.ms": str(timeout_ms)}
        context.use(settings._replace(given=given))


def unknown_group(name: str, known: Iterable[str]) -> CommandError:
    """The error for a group that does not exist, with the nearest names."""
    hint = did_you_mean(name, known, "; `pk groups list` lists groups.")
    return CommandError(f"Group {name!r} does not exist{hint}")


def is_absent(answers: Answers[str, Any], name: str) -> bool:
    """Whether the answer for a group says that it does not exist: brokers describe an unknown group
    as Dead."""
    group, error = answers.ok.get(name), answers.errors.get(name)
    if isinstance(group, r.GroupDescription):
        return group.state == "Dead"
    return isinstance(error, KafkaError) and error.code == ErrorCode.GROUP_ID_NOT_FOUND


async def describe_existing(
    context: Context, admin: Admin, names: Sequence[str]
) -> list[r.GroupDescription]:
    """The groups that exist, in that order; reports the others."""
    answers = await admin.describe_groups(names)
    known: list[str] | None = None
    found: list[r.GroupDescription] = []
    for name in names:
        if is_absent(answers, name):
            known = await group_names(context, admin) if known is None else known
            context.failed(unknown_group(name, known), name)
        elif name in answers.errors:
            context.failed(answers.errors[name], name)
        else:
            found.append(answers.ok[name])
            remember_members(context.settings.bootstrap, name, answers.ok[name].members)
    return found


async def commits_of(
    context: Context, admin: Admin, groups: Iterable[r.GroupDescription]
) -> dict[str, Commits]:
    """Each group's committed offsets, or a share group's start offsets; reports groups whose
    offsets cannot be read."""
    answers = await offsets_of(admin, {g.group_id: g.type for g in groups})
    return succeeded(context, answers, str)


async def offsets_of(admin: Admin, types: Mapping[str, str]) -> Answers[str, Commits]:
    """The committed offsets of each group (name → type), or a share group's start offsets."""
    committing = [name for name, type in types.items() if type != SHARE]
    shares = [name for name, type in types.items() if type == SHARE]
    found: Answers[str, Commits] = Answers()
    if committing:
        commits = await admin.list_groups_offsets(committing)
        for name in commits:
            found.add(name, commits.errors.get(name) or commits.ok[name])
    if shares:
        starts = await admin.list_share_groups_offsets(shares)
        for name in starts:
            found.add(name, starts.errors.get(name) or starts.ok[name])
    return found


async def types_of(admin: Admin, names: Iterable[str]) -> dict[str, str]:
    """The type of each group; "" if it does not exist. Raises the error of a group that cannot be
    described."""
    types: dict[str, str] = {}
    answers = await admin.describe_groups(names)
    for name in answers:
        absent = name in answers.errors and is_absent(answers, name)
        types[name] = "" if absent else answers.value(name).type
    return types


def selected(topics: Iterable[str]) -> dict[str, list[int] | None]:
    """Topic → the selected partitions (None: all), from `-t topic:0,1`."""
    wanted: dict[str, list[int] | None] = {}
    for text in topics:
        name, numbers = topic_partitions(text)
        had = wanted.get(name, [])
        wanted[name] = None if numbers is None or had is None else [*had, *numbers]
    return wanted


async def check_topics(
    context: Context, admin: Admin, topics: Sequence[str], seen: Iterable[TopicPartition]
) -> None:
    """Check that the topics of -t exist, or are among the partitions `seen` with committed offsets:
    a misspelled name must not look like a group without lag. Raises CommandError."""
    wanted = selected(topics)
    missing = sorted(wanted.keys() - {tp.topic for tp in seen})
    for topic in await existing_topics(context, admin, missing) if missing else ():
        check_partitions(topic, wanted[topic.name] or ())


def is_selected(tp: TopicPartition, wanted: Mapping[str, list[int] | None]) -> bool:
    if not wanted:
        return True
    numbers = wanted.get(tp.topic, [])
    return numbers is None or tp.partition in numbers


async def offset_rows(
    context: Context,
    admin: Admin,
    groups: Sequence[r.GroupDescription],
    topics: Iterable[str],
    *,
    times: bool,
) -> dict[str, list[OffsetRow]]:
    """Each group's rows: one for each partition with a committed offset or an assignment, with its
    lag.

    If `times`, the rows also have the age of the first unread record.
    """
    wanted = selected(topics)
    commits = await commits_of(context, admin, groups)
    owners = {g.group_id: {tp: m for m in g.members for tp in m.assignment} for g in groups}
    tps = {
        g.group_id: sorted(
            tp
            for tp in {*commits.get(g.group_id, NO_COMMITS), *owners[g.group_id]}
            if is_selected(tp, wanted)
        )
        for g in groups
    }
    every = sorted({tp for found in tps.values() for tp in found})
    starts, ends = await bounds_of(admin, every)
    rows = {
        name: [
            _offset_row(
                context,
                name,
                tp,
                commits.get(name, NO_COMMITS),
                starts.ok.get(tp),
                ends,
                owners[name].get(tp),
            )
            for tp in found
        ]
        for name, found in tps.items()
    }
    if times:
        await add_time_lag(admin, [row for found in rows.values() for row in found])
    return rows


def _offset_row(
    context: Context,
    group: str,
    tp: TopicPartition,
    commits: Commits,
    start: r.ListedOffset | None,
    ends: Listed,
    owner: r.MemberDescription | None,
) -> OffsetRow:
    error = commits.errors.get(tp) or ends.errors.get(tp)
    if error is not None:
        context.failed(error, f"{group} {partition_name(tp)}")
    commit, end = commits.ok.get(tp), ends.ok.get(tp)
    at = None if commit is None else commit.offset
    shared = isinstance(commit, r.ShareGroupOffset)
    last = None if end is None else end.offset
    lag = None if at is None or last is None else max(last - at, 0)
    if shared:
        lag = commit.lag  # not counted: acknowledged records after the start offset
    metadata = None if commit is None else commit.metadata
    return {
        "group": group,
        "topic": tp.topic,
        "partition": tp.partition,
        "committed": None if shared else at,
        "start_offset": at if shared else None,
        "end": last,
        "lag": lag,
        "time_lag_ms": 0 if lag == 0 else None,
        "client_id": owner.client_id if owner else None,
        "host": owner.client_host.lstrip("/") if owner else None,
        "member_id": owner.member_id if owner else None,
        "instance_id": owner.instance_id if owner else None,
        "start": None if start is None else start.offset,
        "metadata": metadata or None,
        "error": error_name(error) if error else None,
    }


def unread_from(row: OffsetRow) -> int | None:
    """The offset of the next record that the group has not read; None if unknown."""
    start = row["start_offset"]
    if start is None:
        return row["committed"]
    return r.ShareGroupOffset(start, lag=row["lag"]).unread(row["end"])


def unused_offset_columns(are_shared: Iterable[bool]) -> set[str]:
    """The offset column that only `wide` shows, since it is empty for all groups: share groups have
    start offsets, all others committed offsets. `are_shared` says for each group whether it is a
    share group."""
    shared = set(are_shared)
    return {"committed"} if shared == {True} else set() if True in shared else {"start_offset"}


async def add_time_lag(admin: Admin, rows: Sequence[OffsetRow]) -> None:
    """Add the age of the next unread record to rows with lag: 0 if only transaction markers are
    left; unknown stays None."""
    unread: dict[tuple[TopicPartition, int], list[OffsetRow]] = {}
    for row in rows:
        if row["lag"]:
            tp = TopicPartition(row["topic"], row["partition"])
            # If retention has deleted the next record, the oldest one that is left is the next.
            offset = max(unread_from(row) or 0, row["start"] or 0)
            unread.setdefault((tp, offset), []).append(row)
    if not unread:
        return
    found = await admin.record_times(unread, within_ms=_WITHIN_MS)
    now = now_ms()
    for position, time in found.ok.items():
        if time is None or time >= 0:
            for row in unread[position]:
                row["time_lag_ms"] = 0 if time is None else max(now - time, 0)


def longest_lag(rows: Sequence[Mapping[str, Any]] | Sequence[OffsetRow]) -> int | None:
    """The age of the oldest unread record over all partitions, in ms; 0 if nothing is unread, None
    if unknown."""
    lagging = [row["time_lag_ms"] for row in rows if row["lag"]]
    known = [ms for ms in lagging if ms is not None]
    if known:
        return max(known)
    return 0 if not lagging and any(row["lag"] == 0 for row in rows) else None


def lag_style(row: Row) -> str | None:
    return "yellow" if (row.get("lag") or 0) > 0 else None


def member_name(member: r.MemberDescription) -> str:
    """A member's name in a sentence."""
    return f"{member.client_id} ({member.client_host.lstrip('/')}, {member.member_id})"


def active_refusal(group: r.GroupDescription, what: str, or_else: str = "") -> Refused:
    """The refusal for a group that has members, which names them; `or_else` is an alternative to
    stopping them."""
    names = join([member_name(m) for m in group.members])
    stop = f"Stop {names} first" if names else "Stop its members first"
    return Refused(
        f"Group {group.group_id} is {group.state}, and {what} only while it is empty. "
        f"{stop}{or_else}."
    )
