"""`pk groups reset-offsets`: shows the changes, asks, records how to undo them, and commits.

The preview only reads, so it also works for an active group. The change itself is refused for such
a group, and the error names the members. A target outside a partition is clamped, and the row says
so; -1 is never committed.
"""

from collections.abc import Iterable, Mapping, Sequence

from pk.cli.cluster.groups import (
    EMPTY_STATES,
    NO_COMMITS,
    active_refusal,
    apache_timeout,
    commits_of,
    describe_existing,
    group_names,
    is_absent,
    is_selected,
    member_name,
    offsets_of,
    selected,
    types_of,
    wanted_groups,
)
from pk.cli.cluster.offset_changes import Move, ask, commit, export_csv, preview, report
from pk.cli.cluster.partition_selection import partitions_at
from pk.cli.cluster.remembered_offsets import keep_moves
from pk.cli.cluster.topics import existing_topics
from pk.cli.exits import CommandError, Exit, Refused, Unusable
from pk.cli.nouns.groups.options import ResetOffsets
from pk.cli.nouns.groups.reset_targets import Target, target_of
from pk.cli.phrases import join, partition_name
from pk.cli.positions.grammar import Anchor, Position, Positions, Range
from pk.cli.positions.resolve import ResolvedRange, resolve
from pk.cli.positions.times import show_span
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import phrase
from pk.cli.runtime.poll import poll_until
from pk.core.nearest import did_you_mean
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers

_POLL_S = 0.5

Commits = Mapping[TopicPartition, r.OffsetAndMetadata]


async def reset_offsets(context: Context, options: ResetOffsets) -> None:
    """Run `pk groups reset-offsets`."""
    apache_timeout(context, options.timeout)
    target = target_of(options)
    if options.all_topics and options.topics:
        raise Unusable("Give topics with -t or --all-topics, not both.")
    admin = await context.admin()
    change = context.change
    if options.wait_empty is not None and not change.dry_run:
        context.allow()  # before minutes of waiting
    names = await _groups_of(context, admin, options, target)
    wait_ms = None if change.dry_run or not options.wait_empty else options.wait_empty.ms
    active, absent = await _active_and_absent(context, admin, names, wait_ms)
    listed = await _listed(context, admin, target)
    commits = await _commits(admin, names)
    planning = Planning(context, admin, target, options.topics, commits, listed)
    moves = [m for name in names for m in await planning.plan(name)]
    for m in moves:
        if m.error is not None:
            context.fail(m.error)
    if options.export:
        many = len({*options.group, *options.groups}) != 1
        context.write(export_csv(moves, with_group=many))
    if change.dry_run or (options.export and not change.yes):
        if not options.export:
            await preview(context, admin, moves)
            if absent:
                context.say((await _about_absent(context, admin, absent)).strip())
        for group in active:
            context.say(str(_refusal(group)))
        return
    if active:
        raise _refusal(active[0])
    note = await _about_absent(context, admin, absent) if absent else ""
    await ask(context, admin, moves, "Reset?", note, unasked=change.yes)
    kept = await keep_moves(context, admin, moves, "reset")
    report(context, await commit(admin, moves), kept, quiet=options.export)


def _refusal(group: r.GroupDescription) -> Refused:
    return active_refusal(group, "offsets are reset", "; --wait-empty 5m waits for that")


async def _groups_of(
    context: Context, admin: Admin, options: ResetOffsets, target: Target
) -> list[str]:
    """The named groups or, without names, those in the file."""
    in_file = [g for g in target.from_file or {} if g is not None]
    named = (*options.group, *options.groups)
    if in_file and not named and not options.all_groups:
        return in_file
    return await wanted_groups(context, admin, named, every=options.all_groups)


async def _active_and_absent(
    context: Context, admin: Admin, names: Sequence[str], wait_ms: int | None
) -> tuple[list[r.GroupDescription], list[str]]:
    """The groups that have members, and those that do not exist. With --wait-empty, it first waits
    for the members to leave."""
    active: list[r.GroupDescription] = []
    absent: list[str] = []
    said: object = None

    async def empty() -> bool:
        nonlocal said
        answers = await admin.describe_groups(names)
        absent[:] = [name for name in names if is_absent(answers, name)]
        present = [answers.value(name) for name in names if name not in absent]
        active[:] = [group for group in present if group.state not in EMPTY_STATES]
        members = [member_name(m) for g in active for m in g.members]
        if active and wait_ms is not None and members != said:
            said = members
            context.say(
                f"Waiting for {join([g.group_id for g in active])} to be empty; "
                f"members left: {join(members) or 'none'}."
            )
        return not active

    is_empty = await poll_until(empty, every_s=_POLL_S, within_s=(wait_ms or 0) / 1000)
    if not is_empty and wait_ms is not None:
        waited = show_span(wait_ms)
        raise CommandError(f"After {waited} there are still members.", Exit.TIMED_OUT)
    return active, absent


async def _about_absent(context: Context, admin: Admin, absent: Sequence[str]) -> str:
    """A note about groups that the reset would create, since their names may be misspelled."""
    hint = did_you_mean(absent[0], await group_names(context, admin))
    do = "does" if len(absent) == 1 else "do"
    return f" {join(absent)} {do} not exist yet and would be created{hint}"


async def _commits(admin: Admin, names: Sequence[str]) -> dict[str, Commits]:
    """The commits of each group. Raises the first failure."""
    found: dict[str, Commits] = {}
    types = await types_of(admin, names)
    answers = await offsets_of(admin, types)
    for name in answers:
        commits = NO_COMMITS if is_absent(answers, name) else answers.value(name)
        for error in commits.errors.values():
            raise error
        found[name] = dict(commits.ok)
    return found


async def _listed(context: Context, admin: Admin, target: Target) -> Commits | None:
    """The commits of the group of --to-group; None without that option."""
    if target.to_group is None:
        return None
    groups = await describe_existing(context, admin, [target.to_group])
    if not groups:
        raise CommandError(f"Group {target.to_group} has no offsets to copy.")
    found = await commits_of(context, admin, groups)
    commits = found.get(target.to_group, NO_COMMITS).ok
    if not commits:
        raise CommandError(f"Group {target.to_group} has no committed offsets to copy.")
    return commits


class _Remembered:
    """Requests the offsets of a partition once, for all groups that have a commit there."""

    def __init__(self, admin: Admin, partitions: Iterable[TopicPartition]) -> None:
        self._admin = admin
        self._partitions = list(partitions)
        self._answers: dict[int, Answers[TopicPartition, r.ListedOffset]] = {}
        """Timestamp → partition → answer."""

    async def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation: r.IsolationLevel = r.IsolationLevel.READ_UNCOMMITTED,
    ) -> Answers[TopicPartition, r.ListedOffset]:
        """The same as `list_offsets` of the admin client, but the first request for a timestamp
        covers all partitions."""
        for moment in set(timestamps.values()):
            known = self._answers.setdefault(moment, Answers())
            asked = [tp for tp, at in timestamps.items() if at == moment and tp not in known]
            if asked:
                wanted = dict.fromkeys((*asked, *self._partitions), moment)
                known.update(await self._admin.list_offsets(wanted, isolation=isolation))
        found: Answers[TopicPartition, r.ListedOffset] = Answers()
        for tp, moment in timestamps.items():
            known = self._answers[moment]
            found.add(tp, known.errors.get(tp) or known.ok[tp])
        return found


class Planning:
    """Plans the changes to the offsets of groups. Changes nothing and joins no group."""

    def __init__(
        self,
        context: Context,
        admin: Admin,
        target: Target,
        topics: Sequence[str],
        commits: Mapping[str, Commits],
        copied: Commits | None,
    ) -> None:
        self._context = context
        self._admin = admin
        self._target = target
        self._commits = commits
        self._copied = copied
        self._wanted = selected(topics)
        self._named: list[TopicPartition] | None = None
        """The partitions that -t names; None until they were looked up."""

        self._offsets = _Remembered(admin, {tp for found in commits.values() for tp in found})

    async def plan(self, group: str) -> list[Move]:
        """The planned change of each offset of `group`. Raises CommandError if there is nothing to
        set."""
        commits = self._commits.get(group, {})
        listed = self._listed(group)
        tps = await self._partitions(commits, listed)
        if not tps:
            raise CommandError(
                f"Group {group} has no committed offsets; give the topics to set with -t TOPIC."
                if not self._wanted and listed is None
                else f"There is nothing to set for group {group}."
            )
        if listed is not None:
            places = await self._places_listed(listed, tps)
        else:
            assert self._target.positions is not None
            self._check_named(group, self._target.positions, tps)
            committed = {tp: commits[tp].offset if tp in commits else None for tp in tps}
            self._check_commits(self._target.positions, committed)
            places = await resolve(self._offsets, self._target.positions, tps, committed=committed)
        given = self._copied or {}
        return [
            _move(group, tp, commits.get(tp), places, self._target, given.get(tp))
            for tp in tps
            if tp in places
        ]

    def _check_named(
        self, group: str, positions: Positions, partitions: Sequence[TopicPartition]
    ) -> None:
        """Raise CommandError if a position is for a partition without a commit of the group, and
        only partitions with commits are moved."""
        there = {tp.partition for tp in partitions}
        for number in positions.by_partition:
            if number not in there:
                has = join([partition_name(tp) for tp in partitions], 4)
                raise CommandError(
                    f"Group {group} has no committed offset for a partition {number}, only for "
                    f"{has}; -t TOPIC selects others."
                )

    def _check_commits(
        self, positions: Positions, committed: Mapping[TopicPartition, int | None]
    ) -> None:
        """Raise CommandError, in Apache's words, for a partition whose target is relative to its
        commit and that has no commit."""
        if self._target.keeps_commit:
            return
        for tp, offset in committed.items():
            asked = positions.of(tp.partition)
            if offset is None and asked is not None and asked.begin.anchor is Anchor.COMMITTED:
                raise CommandError(
                    f"Cannot shift offset for partition {tp.topic}-{tp.partition} since there is "
                    "no current committed offset; -t selects the partitions to set."
                )

    def _listed(self, group: str) -> Mapping[TopicPartition, int] | None:
        """The offsets for `group` from the file, or from the group that is copied."""
        if self._copied is not None:
            return {tp: c.offset for tp, c in self._copied.items()}
        if self._target.from_file is None:
            return None
        return self._target.from_file.get(group) or self._target.from_file.get(None) or {}

    async def _partitions(
        self, commits: Iterable[TopicPartition], listed: Iterable[TopicPartition] | None
    ) -> list[TopicPartition]:
        """The partitions to move: those of the file, those of -t, or all that have a commit."""
        if listed is not None:
            return sorted(tp for tp in listed if is_selected(tp, self._wanted))
        if not self._wanted:
            return sorted(commits)
        if self._named is None:
            self._named = []
            for topic in await existing_topics(self._context, self._admin, self._wanted):
                self._named += partitions_at(
                    [topic], self._wanted[topic.name], self._target.positions
                )
            self._named.sort()
        return self._named

    async def _places_listed(
        self, offsets: Mapping[TopicPartition, int], tps: Sequence[TopicPartition]
    ) -> Answers[TopicPartition, ResolvedRange]:
        """The offsets of a list, found topic by topic, since positions are by partition number."""
        places: Answers[TopicPartition, ResolvedRange] = Answers()
        for topic in dict.fromkeys(tp.topic for tp in tps):
            here = [tp for tp in tps if tp.topic == topic]
            ranges = {tp.partition: Range(Position(Anchor.OFFSET, offsets[tp])) for tp in here}
            places.update(await resolve(self._offsets, Positions(None, ranges), here))
        return places


def _move(
    group: str,
    tp: TopicPartition,
    commit: r.OffsetAndMetadata | None,
    places: Answers[TopicPartition, ResolvedRange],
    target: Target,
    copied: r.OffsetAndMetadata | None,
) -> Move:
    has = commit.offset if commit else None
    # The group keeps its own metadata; without any, a copy takes that of its source.
    metadata = commit.metadata if commit else copied.metadata if copied else ""
    if (error := places.errors.get(tp)) is not None:
        return Move(group, tp, has, None, -1, metadata, phrase(error), error, was=commit)
    place = places.ok[tp]
    span = (place.start, place.latest)
    if target.keeps_commit and commit is not None:
        return Move(group, tp, has, has, commit.leader_epoch, metadata, "", span=span, was=commit)
    note = place.note
    if has is None and not note:
        note = "no commit"
    same = copied is not None and copied.offset == place.begin
    epoch = copied.leader_epoch if copied is not None and same else -1
    return Move(group, tp, has, place.begin, epoch, metadata, note, span=span, was=commit)
