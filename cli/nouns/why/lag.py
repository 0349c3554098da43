"""`pk why lag`: looks at a group twice, and hands what it saw to `pk.cli.diagnosis.why_lag`."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import trio

from pk.cli.cluster.groups import (
    check_topics,
    group_names,
    is_absent,
    is_selected,
    selected,
    unknown_group,
)
from pk.cli.diagnosis.pinning_transaction import PinningTransaction
from pk.cli.diagnosis.why_lag import LagFacts, Member, Read, explain_lag
from pk.cli.nouns.why.pinning_transaction import pinning_transactions
from pk.cli.nouns.why.why import answer
from pk.cli.positions.resolve import now_ms
from pk.cli.runtime.context import Context
from pk.cli.runtime.exits import CommandError
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError

_AGES = 20
"""The time of the next record is looked up in so many of the partitions that lag most."""
_STEP_S = 1.0
_PROBE_S = 3.0
"""For so long at most it is looked whether partitions that stand still hold anything a read_committed reader gets."""

Offsets = Mapping[TopicPartition, int]


class _Look(NamedTuple):
    """A group at one moment."""

    group: r.GroupDescription
    commits: Offsets
    ends: Offsets
    at_s: float


async def why_lag(
    context: Context, group: str, topics: Sequence[str], seconds: float
) -> int | None:
    """`pk why lag`."""
    admin = await context.admin()
    first = await _look(context, admin, group, topics)
    last = await _again(context, admin, first, topics, seconds)
    facts = await _facts(context, admin, first, last)
    explained = explain_lag(facts)
    answer(
        context,
        [explained],
        subject="group",
        healthy=("no-lag", "catching-up", "nothing-readable"),
        more=[{"lag": facts.lag}],
    )
    return None


async def _look(context: Context, admin: Admin, name: str, topics: Sequence[str]) -> _Look:
    """One look. Raises CommandError where there is no such group."""
    wanted = selected(topics)
    described = (await admin.describe_groups([name]))[name]
    if is_absent(described):
        raise unknown_group(name, await group_names(context, admin))
    if not isinstance(described, r.GroupDescription):
        raise described
    told = await admin.list_group_offsets(name)
    commits = {
        tp: o.offset
        for tp, o in told.items()
        if isinstance(o, r.OffsetAndMetadata) and is_selected(tp, wanted)
    }
    owned = {tp for m in described.members for tp in m.assignment if is_selected(tp, wanted)}
    if wanted and not commits and not owned:
        await check_topics(context, admin, topics, ())
        raise CommandError(f"Group {name} has no commit in what -t names, and no member reads it.")
    ends = await _offsets(admin, {*commits, *owned}, r.LATEST)
    return _Look(described, commits, ends, trio.current_time())


async def _offsets(
    admin: Admin,
    tps: Iterable[TopicPartition],
    at: int,
    isolation: r.IsolationLevel = r.IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """Offsets of the partitions that have a leader; the others are left out."""
    wanted = dict.fromkeys(tps, at)
    answers = await admin.list_offsets(wanted, isolation=isolation) if wanted else {}
    return {tp: a.offset for tp, a in answers.items() if isinstance(a, r.ListedOffset)}


async def _again(
    context: Context,
    admin: Admin,
    first: _Look,
    topics: Sequence[str],
    seconds: float,
) -> _Look:
    """The second look: after `seconds`, or as soon as every partition that lags has moved on."""
    lagging = [tp for tp, at in first.commits.items() if at < first.ends.get(tp, 0)]
    if seconds <= 0 or not lagging or not first.group.members:
        return first
    while True:
        await trio.sleep(min(_STEP_S, seconds))
        look = await _look(context, admin, first.group.group_id, topics)
        moved = all(look.commits.get(tp) != first.commits[tp] for tp in lagging)
        if moved or look.at_s - first.at_s >= seconds:
            return look


def _same(before: r.GroupDescription, after: r.GroupDescription) -> bool:
    def members(group: r.GroupDescription) -> set[tuple[str, tuple[TopicPartition, ...]]]:
        return {(m.member_id, m.assignment) for m in group.members}

    return members(before) == members(after) and before.group_epoch == after.group_epoch


async def _facts(context: Context, admin: Admin, first: _Look, last: _Look) -> LagFacts:
    group = last.group
    owners = {tp: m.member_id for m in group.members for tp in m.assignment}
    tps = sorted({*last.commits, *(tp for tp in owners if tp in last.ends or tp in first.ends)})
    starts = await _offsets(admin, tps, r.EARLIEST)
    stable = await _offsets(admin, tps, r.LATEST, r.IsolationLevel.READ_COMMITTED)
    leaders = await _leaders(admin, tps)
    ages = await _ages(admin, last, starts)
    empty = await _without_readable(context, _unmoved(first, last, starts, stable))
    pinned = await _pinned(admin, last, stable)
    reads = {
        tp: Read(
            first.commits.get(tp),
            last.commits.get(tp),
            starts.get(tp),
            first.ends.get(tp),
            last.ends.get(tp),
            stable.get(tp),
            leaders.get(tp, -1),
            owners.get(tp),
            ages.get(tp),
            tp in empty,
            pinned.get(tp),
        )
        for tp in tps
        if tp in leaders
    }
    members = [
        Member(
            m.member_id,
            m.client_id,
            m.client_host,
            frozenset(m.assignment),
            0 <= m.member_epoch < group.group_epoch,
        )
        for m in group.members
    ]
    subscribed = frozenset(t for m in group.members for t in m.subscribed_topics)
    return LagFacts(
        group.group_id,
        group.state,
        members,
        reads,
        last.at_s - first.at_s,
        not _same(first.group, group),
        subscribed,
        now_ms(),
    )


async def _leaders(admin: Admin, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The leader of each partition; those of topics that are gone are left out."""
    topics = sorted({tp.topic for tp in tps})
    answers = await admin.describe_topics(topics) if topics else {}
    return {
        TopicPartition(t.name, p.partition): p.leader_id
        for t in answers.values()
        if isinstance(t, r.TopicDescription)
        for p in t.partitions
    }


async def _ages(admin: Admin, look: _Look, starts: Offsets) -> dict[TopicPartition, int]:
    """The time of the next record of the partitions that lag most."""
    lags = {
        tp: look.ends[tp] - at
        for tp, at in look.commits.items()
        if tp in look.ends and at < look.ends[tp]
    }
    worst = sorted(lags, key=lambda tp: -lags[tp])[:_AGES]
    places = [(tp, max(look.commits[tp], starts.get(tp, 0))) for tp in worst]
    times = await admin.record_times(places) if places else {}
    return {tp: at for (tp, _), at in times.items() if isinstance(at, int)}


def _unmoved(
    first: _Look, last: _Look, starts: Offsets, stable: Offsets
) -> dict[TopicPartition, tuple[int, int]]:
    """From where to where a read_committed reader could still read, in the partitions with the least lag of those whose
    commit stands still."""
    spans: dict[TopicPartition, tuple[int, int]] = {}
    for tp, at in last.commits.items():
        begin, end = max(at, starts.get(tp, 0)), min(last.ends.get(tp, 0), stable.get(tp, 0))
        if first.commits.get(tp) == at and begin < end:
            spans[tp] = begin, end
    least = sorted(spans, key=lambda tp: spans[tp][1] - spans[tp][0])[:_AGES]
    return {tp: spans[tp] for tp in least}


async def _without_readable(
    context: Context, spans: Mapping[TopicPartition, tuple[int, int]]
) -> set[TopicPartition]:
    """The partitions that hold nothing between two offsets but aborted records and markers.

    One that cannot be read, or not in `_PROBE_S`, is left out, as if it held a record.
    """
    if not spans:
        return set()
    from pk.cli.records.range_reader import RangeReader, Span
    from pk.cli.runtime.client_config import client_config
    from pk.net.client.config import ConsumerConfig
    from pk.net.client.consumer import open_consumer

    config = client_config(ConsumerConfig, context.settings, {"auto.offset.reset": "earliest"})
    config.pop("group.id", None)
    config |= {
        "isolation.level": "read_committed",
        "enable.auto.commit": "false",
        "allow.auto.create.topics": "false",
    }
    empty: set[TopicPartition] = set()
    with suppress(KafkaError, ClientError), trio.move_on_after(_PROBE_S):
        async with open_consumer(context.settings.bootstrap, config) as consumer:
            todo = {tp: Span(*span) for tp, span in spans.items()}
            while todo:
                reader = RangeReader(consumer, todo)
                found: set[TopicPartition] = set()
                while reader.open and not found:
                    for part in await reader.parts():
                        found.add(TopicPartition(part.source.topic, part.source.partition))
                    empty |= todo.keys() - reader.open.keys() - found
                todo = {
                    tp: Span(reader.positions[tp], span.end)
                    for tp, span in reader.open.items()
                    if tp not in found
                }
    return empty


async def _pinned(
    admin: Admin, look: _Look, stable: Offsets
) -> dict[TopicPartition, PinningTransaction]:
    """Whose transaction holds the last stable offset before the end, in the partitions where most is held back."""
    held = {tp: end - stable[tp] for tp, end in look.ends.items() if stable.get(tp, end) < end}
    most = sorted(held, key=lambda tp: -held[tp])[:_AGES]
    return await pinning_transactions(admin, most) if most else {}
