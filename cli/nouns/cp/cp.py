"""`pk cp`: copies records from topics to a topic in this cluster or another.

It shows the plan, asks, and then copies (`pk.cli.nouns.cp.run`). The profile of the source guards
only reading, and that of the target only writing, so a cluster whose profile is read-only can be
the source.
"""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple

from pk.cli.cluster.partition_selection import partitions_at
from pk.cli.cluster.position_lookup import check_group, resolve_positions, say_uncommitted
from pk.cli.cluster.topics import (
    check_partitions,
    existing_topics,
    names_or_included,
    partition_numbers,
)
from pk.cli.exits import CommandError, Refused, Unusable
from pk.cli.nouns.cp.group_commits import GroupCommits
from pk.cli.nouns.cp.rows import CopiedRow
from pk.cli.nouns.cp.run import Job, Totals, copy_records, count_wanted
from pk.cli.nouns.cp.state import StateFile
from pk.cli.nouns.cp.target import (
    create_targets,
    say_stamped,
    target_context,
    target_description,
)
from pk.cli.output.formats import render
from pk.cli.output.rows import listing
from pk.cli.phrases import count, partition_name
from pk.cli.positions.grammar import START, Positions, everywhere
from pk.cli.positions.resolve import positions_option, resolve
from pk.cli.records.filter import AbsentFields, record_filter
from pk.cli.records.idle_reason import leaderless
from pk.cli.records.permalinks import SCHEME, Link, parse_link, profile_of
from pk.cli.records.range_reader import Span
from pk.cli.runtime.context import Context
from pk.cli.runtime.guards import guarding
from pk.cli.runtime.question_table import say_table
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.config import ConsumerConfig
from pk.net.client.results import IsolationLevel, TopicDescription

if TYPE_CHECKING:
    from pk.cli.nouns.cp.options import Copy

_PLAN_ROWS = 12
"""The most partitions that the question lists one by one."""


class _Request(NamedTuple):
    """The copy that the command line requests."""

    options: "Copy"
    names: tuple[str, ...]
    links: tuple[Link, ...]
    positions: Positions


class Plan(NamedTuple):
    """A planned copy: the offsets of each partition, and the target of each topic."""

    spans: Mapping[TopicPartition, Span]
    starts: Mapping[TopicPartition, int]
    """The first offset of each partition."""

    targets: Mapping[str, str]
    bounded: bool


def _request(context: Context, options: "Copy") -> _Request:
    """Check the options for conflicts, and make the request. Raises Unusable."""
    words = tuple(dict.fromkeys(options.source))
    names = tuple(w for w in words if not w.startswith(SCHEME))
    try:
        links = tuple(parse_link(w) for w in words if w.startswith(SCHEME))
    except ValueError as e:
        raise Unusable(f"{e}.") from None
    if bool(words) == (options.include is not None):
        raise Unusable("Name the topics to read, or give a regular expression with --include.")
    if links and (names or options.offset or options.once or options.partitions or options.state):
        raise Unusable(
            "A permalink says what to read; topics, -o, --once, -p and --state cannot be combined "
            "with it."
        )
    if any(link.profile not in (None, profile_of(context.settings)) for link in links):
        raise Unusable(
            "The link belongs to another profile; --profile NAME chooses the one to read from."
        )
    positions = everywhere(START)
    if options.offset is not None:
        positions = positions_option(options.offset, "-o")
    if options.exactly_once:
        _check_exactly_once(options, links)
    else:
        check_group(positions, options.group)
    if options.once:
        if positions.bounded and options.offset is not None:
            raise Unusable(
                f"The range {options.offset} ends by itself; --once cannot be combined with it."
            )
        positions = positions.ended()
    if options.rate is not None and not options.rate > 0:  # also refuses nan
        raise Unusable(f"--rate must be more than 0 records a second, not {options.rate:g}.")
    if not options.create and (options.replication_factor is not None or options.configs):
        raise Unusable("-r and -c describe a target to create; they need --create.")
    return _Request(options, names, links, positions)


def _check_exactly_once(options: "Copy", links: Sequence[Link]) -> None:
    if options.group is None:
        raise Unusable("--exactly-once commits a group's offsets: name the group with -g GROUP.")
    if links or options.state:
        raise Unusable(
            "--exactly-once keeps the progress in the group; permalinks and --state cannot be "
            "combined with it."
        )


async def copy(context: Context, options: "Copy") -> int | None:
    """Run `pk cp`."""
    request = _request(context, options)
    absent = AbsentFields()
    wanted = record_filter(options.key, options.header, options.where, absent)
    context.about = ConsumerConfig
    target = target_context(context, options)
    admin = await context.admin()
    topics = await _sources(context, admin, request)
    async with AsyncExitStack() as stack:
        if target is not context:
            await stack.enter_async_context(guarding(target))
        ids = await _ids(admin, target)
        plan = await _plan(context, admin, request, topics, same=ids[0] == ids[1])
        commits: GroupCommits | None = None
        if options.exactly_once:
            commits = await _commits(admin, options, ids)
            spans = await commits.resumed(context, admin, plan.spans, plan.starts, taken_over=False)
            plan = plan._replace(spans=spans)
        state = StateFile(options.state, plan.targets, ids)
        if not context.change.dry_run:
            stack.enter_context(state.held())
        plan = plan._replace(spans=state.resumed(context, plan.spans, plan.starts, topics))
        missing = await target_description(target, plan.targets, topics, options)
        if options.keep_timestamp:
            made = {plan.targets[t.name] for t in missing}
            await say_stamped(context, target, sorted({*plan.targets.values()} - made))
        if context.change.dry_run:
            matching = None
            if wanted is not None and plan.bounded:
                matching = await count_wanted(context, options, plan.spans, wanted)
            _show(context, plan, matching)
            _say_dry(context, target, plan, missing, matching)
            _say_absent(context, absent, matching)
            return None
        if state.found or (commits is not None and commits.found):
            where = options.state or f"the offsets of group {options.group}"
            context.say(f"Continuing from {where}.")
        await _agree(context, target, plan, missing, options.target)
        await create_targets(context, target, plan.targets, admin, missing, options)
        totals = Totals(dict.fromkeys(plan.spans, 0))
        try:
            await copy_records(
                context,
                target,
                Job(options, plan.spans, plan.targets, wanted, plan.starts, commits),
                totals,
                state,
            )
        finally:
            kept = f"the offsets of group {commits.group}" if commits is not None else state.path
            _say_totals(context, totals, kept)
    _show(context, plan, totals.copied)
    _say_absent(context, absent, totals.copied)
    if request.links and wanted is None:
        for tp in (tp for tp, copied in totals.copied.items() if not copied):
            gone = CommandError(f"there is no record at offset {plan.spans[tp].begin}.")
            context.failed(gone, partition_name(tp))
    return None


def _say_absent(
    context: Context, absent: AbsentFields, matching: Mapping[TopicPartition, int] | None
) -> None:
    said = None if matching is None else absent.sentence(sum(matching.values()))
    if said is not None:
        context.say(said)


async def _ids(admin: Admin, target: Context) -> tuple[str | None, str | None]:
    """The ids of both clusters."""
    there = await (await target.admin()).describe_cluster()
    return (await admin.describe_cluster()).cluster_id, there.cluster_id


async def _commits(
    admin: Admin, options: "Copy", ids: tuple[str | None, str | None]
) -> GroupCommits:
    """The group that stores the progress of --exactly-once. Raises Refused if it has members."""
    assert options.group is not None
    if ids[0] != ids[1]:
        raise Refused(
            "--exactly-once needs both topics on one cluster: a transaction cannot span two. "
            "--state FILE copies at least once."
        )
    commits = GroupCommits(options.group)
    await commits.check_memberless(admin)
    return commits


async def _sources(context: Context, admin: Admin, request: _Request) -> list[TopicDescription]:
    """The topics to read. Raises CommandError for a topic that does not exist."""
    named = (*request.names, *(link.topic for link in request.links))
    return await existing_topics(
        context, admin, await names_or_included(context, admin, named, request.options.include)
    )


async def _plan(
    context: Context,
    admin: Admin,
    request: _Request,
    topics: Sequence[TopicDescription],
    *,
    same: bool,
) -> Plan:
    """Plan the copy. Raises Unusable, CommandError, and the error of the first partition that has
    one."""
    options = request.options
    targets = {t.name: options.target.replace("{topic}", t.name) for t in topics}
    isolation = IsolationLevel[options.isolation_level.upper()]
    if request.links:
        spans = await _linked(admin, request.links, topics, isolation)
        return Plan(spans, {}, targets, bounded=True)
    numbers = partition_numbers(options.partitions, "-p")
    partitions = partitions_at(topics, numbers, request.positions)
    led = {(t.name, p.partition) for t in topics for p in t.partitions if p.leader_id >= 0}
    if dead := [tp for tp in partitions if tp not in led]:
        context.say(leaderless(dead, "waiting for one"))
    ranges = await resolve_positions(
        context, admin, request.positions, partitions, group=options.group, isolation=isolation
    )
    say_uncommitted(context, ranges, options.group)
    spans: dict[TopicPartition, Span] = {}
    starts: dict[TopicPartition, int] = {}
    for tp in ranges:
        found = ranges.value(tp)
        spans[tp], starts[tp] = Span(found.begin, found.end), found.start
    bounded = request.positions.bounded
    onto_itself = [name for name, to in targets.items() if same and to == name]
    if onto_itself and not bounded:
        raise Refused(
            f"A copy of {onto_itself[0]} to itself would never end; use --once or a range."
        )
    return Plan(spans, starts, targets, bounded)


async def _linked(
    admin: Admin,
    links: Sequence[Link],
    topics: Sequence[TopicDescription],
    isolation: IsolationLevel,
) -> dict[TopicPartition, Span]:
    """The offsets of linked records. Raises CommandError for an offset that the partition does not
    have, Unusable."""
    spans: dict[TopicPartition, Span] = {}
    for link in links:
        (described,) = (t for t in topics if t.name == link.topic)
        (tp,) = check_partitions(described, [link.partition])
        if tp in spans:
            raise Unusable("Several links name the same partition; copy one of them at a time.")
        found = (await resolve(admin, everywhere(START), [tp], isolation)).value(tp)
        if not found.start <= link.offset < found.latest:
            raise CommandError(
                f"{partition_name(tp)} has no record at offset {link.offset}: "
                f"it begins at {found.start} and ends before {found.latest}."
            )
        spans[tp] = Span(link.offset, link.offset + 1)
    return spans


def _rows(plan: Plan, copied: Mapping[TopicPartition, int] | None) -> list[CopiedRow]:
    return [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "target": plan.targets[tp.topic],
            "from": span.begin,
            "up_to": span.end,
            "offsets": None if span.end is None else max(span.end - span.begin, 0),
            "copied": None if copied is None else copied[tp],
        }
        for tp, span in sorted(plan.spans.items())
    ]


def _show(context: Context, plan: Plan, copied: Mapping[TopicPartition, int] | None) -> None:
    # Before the copy, the last column is empty; only formats for programs have it.
    rows = listing(CopiedRow, _rows(plan, copied), wide=("copied",) if copied is None else ())
    # Here --where filters records, not the rows of this list.
    look = context.output._replace(where=None)
    context.write(render(rows, look))


def _summary(plan: Plan, target: Context) -> str:
    names = ", ".join(dict.fromkeys(plan.targets.values()))
    into = f"to {names} of {target.settings.cluster_name}"
    if not plan.bounded:
        return f"{count(len(plan.spans), 'partition')} {into}, then new records until Ctrl-C"
    offsets = sum(max((s.end or 0) - s.begin, 0) for s in plan.spans.values())
    return f"up to {count(offsets, 'record')} {into}"


async def _agree(
    context: Context, target: Context, plan: Plan, missing: Sequence[object], name: str
) -> None:
    """Show the plan, and ask. Raises Refused."""
    if not context.change.yes:
        if len(plan.spans) <= _PLAN_ROWS:
            say_table(context, listing(CopiedRow, _rows(plan, None), without=("copied",)))
        if missing:
            context.say(f"{count(len(missing), 'topic')} will be created.")
    await target.agree(f"Copy {_summary(plan, target)}?", name=name)


def _say_dry(
    context: Context,
    target: Context,
    plan: Plan,
    missing: Sequence[TopicDescription],
    matching: Mapping[TopicPartition, int] | None,
) -> None:
    made = f"{count(len(missing), 'topic')} would be created; " if missing else ""
    passing = ""
    if matching is not None:
        passing = f"; {count(sum(matching.values()), 'record')} would pass the filter"
    context.say(f"Would copy {_summary(plan, target)}{passing}; {made}nothing was changed.")


def _say_totals(context: Context, totals: Totals, kept: str | None) -> None:
    """Print the totals, even if the copy ended early; `kept` names the place where its progress is
    stored."""
    copied, read = sum(totals.copied.values()), totals.read
    left_out = f" of {read:,} read" if read != copied else ""
    lost = f"; {count(totals.lost, 'record')} could not be written" if totals.lost else ""
    context.say(
        f"Copied {count(copied, 'record')}{left_out}, {totals.bytes_read / 1e6:,.1f} MB read"
        f" in {totals.seconds:.1f} s{lost}."
    )
    if totals.read and not totals.finished:
        where = f"The same command continues from {kept}."
        if not kept:
            stood = [f"{tp.partition}={p}" for tp, p in sorted(totals.positions.items())]
            one_topic = len({tp.topic for tp in totals.positions}) == 1
            where = "A copy with --state FILE can be continued."
            if one_topic and len(stood) <= _PLAN_ROWS:
                where = f"-o {','.join(stood)} continues from there."
        context.say(where)
