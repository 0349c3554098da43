"""`pk why lag`: measures a group twice, for `pk.cli.diagnosis.why_lag` to explain."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import trio

from pk.cli.cluster.groups import (
    SHARE,
    check_topics,
    group_names,
    is_absent,
    is_selected,
    offsets_of,
    selected,
    unknown_group,
)
from pk.cli.cluster.pipelines import PipelineCommit, pipeline_of
from pk.cli.diagnosis.explain import Explanation
from pk.cli.diagnosis.lag_facts import LagFacts, Member, Read
from pk.cli.diagnosis.open_transactions import pinning_transactions
from pk.cli.diagnosis.pinning_transaction import PinningTransaction
from pk.cli.diagnosis.why_lag import explain_lag
from pk.cli.exits import CommandError
from pk.cli.nouns.why.rows import ExplainedLag, GroupVerdict
from pk.cli.nouns.why.why import answer, evidence_rows
from pk.cli.positions.resolve import now_ms
from pk.cli.runtime.context import Context
from pk.core.durations import Duration
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError

_AGES = 20
"""The number of partitions, those with the most lag, for which the time of the next record is
requested."""
_STEP_S = 1.0
_PROBE_S = 3.0
"""How long partitions without progress are searched for records that a read_committed consumer
would get."""

Offsets = Mapping[TopicPartition, int]


class _Measurement(NamedTuple):
    """A measurement of a group."""

    group: r.GroupDescription
    commits: Offsets
    """The committed offsets, or the start offsets of a share group."""

    lags: Offsets
    """The lag from the share coordinator; empty for a group that commits offsets."""

    ends: Offsets
    at_s: float
    pipeline: PipelineCommit | None = None

    @property
    def is_share(self) -> bool:
        return self.group.type == SHARE

    def done(self, tp: TopicPartition) -> int | None:
        """A count that increases with every record that the group finishes; None if unknown."""
        if tp in self.lags and tp in self.ends:
            return self.ends[tp] - self.lags[tp]
        return self.commits.get(tp)

    def is_behind(self, tp: TopicPartition) -> bool:
        return self.lags.get(tp, self.ends.get(tp, 0) - self.commits[tp]) > 0


async def why_lag(
    context: Context, group: str, topics: Sequence[str], period: Duration
) -> int | None:
    """Run `pk why lag`."""
    admin = await context.admin()
    first = await _measure(context, admin, group, topics)
    last = await _again(context, admin, first, topics, period.s)
    facts = await _facts(context, admin, first, last)
    explained = explain_lag(facts)

    def describe(explanation: Explanation) -> ExplainedLag:
        return {
            "group": explanation.subject,
            "state": explanation.state,
            "verdict": explanation.verdict,
            "lag": facts.lag,
            "evidence": evidence_rows(explanation),
            "next": list(explanation.next),
        }

    healthy = ("no-lag", "catching-up", "nothing-readable")
    answer(context, [explained], describe, GroupVerdict, healthy=healthy)
    return None


async def _measure(
    context: Context, admin: Admin, name: str, topics: Sequence[str]
) -> _Measurement:
    """Measure the group once. Raises CommandError if the group does not exist."""
    wanted = selected(topics)
    answers = await admin.describe_groups([name])
    if is_absent(answers, name):
        raise unknown_group(name, await group_names(context, admin))
    described = answers.value(name)
    committed = (await offsets_of(admin, {name: described.type})).value(name)
    found = {tp: o for tp, o in committed.ok.items() if is_selected(tp, wanted)}
    commits = {tp: o.offset for tp, o in found.items()}
    lags = {
        tp: o.lag
        for tp, o in found.items()
        if isinstance(o, r.ShareGroupOffset) and o.lag is not None
    }
    owned = {tp for m in described.members for tp in m.assignment if is_selected(tp, wanted)}
    if wanted and not commits and not owned:
        await check_topics(context, admin, topics, ())
        raise CommandError(
            f"Group {name} has no committed offsets for the topics of -t, and no member reads them."
        )
    ends = await _offsets(admin, {*commits, *owned}, r.LATEST)
    pipeline = None if described.members else pipeline_of(o.metadata for o in found.values())
    return _Measurement(described, commits, lags, ends, trio.current_time(), pipeline)


async def _offsets(
    admin: Admin,
    tps: Iterable[TopicPartition],
    at: int,
    isolation: r.IsolationLevel = r.IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """The offsets of partitions with a leader; other partitions are left out."""
    wanted = dict.fromkeys(tps, at)
    answers = await admin.list_offsets(wanted, isolation=isolation)
    return {tp: a.offset for tp, a in answers.ok.items()}


async def _again(
    context: Context,
    admin: Admin,
    first: _Measurement,
    topics: Sequence[str],
    seconds: float,
) -> _Measurement:
    """Measure the group again: after `seconds`, or as soon as every partition with lag has
    advanced."""
    lagging = [tp for tp in first.commits if first.is_behind(tp)]
    reads = first.group.members or first.pipeline is not None
    if seconds <= 0 or not lagging or not reads:
        return first
    while True:
        await trio.sleep(min(_STEP_S, seconds))
        measured = await _measure(context, admin, first.group.group_id, topics)
        moved = all(measured.done(tp) != first.done(tp) for tp in lagging)
        if moved or measured.at_s - first.at_s >= seconds:
            return measured


def _same(before: r.GroupDescription, after: r.GroupDescription) -> bool:
    def members(group: r.GroupDescription) -> set[tuple[str, tuple[TopicPartition, ...]]]:
        return {(m.member_id, m.assignment) for m in group.members}

    return members(before) == members(after) and before.group_epoch == after.group_epoch


async def _facts(
    context: Context, admin: Admin, first: _Measurement, last: _Measurement
) -> LagFacts:
    group = last.group
    owners = {tp: m.member_id for m in group.members for tp in m.assignment}
    tps = sorted({*last.commits, *(tp for tp in owners if tp in last.ends or tp in first.ends)})
    starts = await _offsets(admin, tps, r.EARLIEST)
    # Transactions do not affect a share group that reads uncommitted records.
    waits = not last.is_share or await _is_read_committed(admin, group.group_id)
    isolation = r.IsolationLevel.READ_COMMITTED
    stable = await _offsets(admin, tps, r.LATEST, isolation) if waits else {}
    leaders = await _leaders(admin, tps)
    if last.is_share:
        empty = {
            tp for tp, lag in last.lags.items() if _reaches(lag, last.ends.get(tp), stable.get(tp))
        }
    else:
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
            nothing_readable=tp in empty,
            pinned_by=pinned.get(tp),
            reported_lag=last.lags.get(tp),
            acknowledged=(last.done(tp) or 0) - (first.done(tp) or 0),
        )
        for tp in tps
        if tp in leaders
    }
    for tp, at in (await _ages(admin, reads)).items():
        reads[tp] = reads[tp]._replace(next_ms=at)
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
        last.is_share,
        last.pipeline,
    )


async def _is_read_committed(admin: Admin, group: str) -> bool:
    """Whether a share group waits for transactions (share.isolation.level)."""
    key = "share.isolation.level"
    resource = r.ConfigResource(r.ResourceType.GROUP, group)
    entries = (await admin.describe_configs([resource], keys=(key,))).value(resource)
    return any(e.name == key and e.value == "read_committed" for e in entries)


def _reaches(lag: int, end: int | None, stable: int | None) -> bool:
    """Whether a share group has finished every record before an open transaction, so that only the
    records after it are its lag."""
    return end is not None and stable is not None and 0 < lag <= end - stable


async def _leaders(admin: Admin, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The leader of each partition; deleted topics are left out."""
    topics = sorted({tp.topic for tp in tps})
    answers = await admin.describe_topics(topics)
    return {
        TopicPartition(t.name, p.partition): p.leader_id
        for t in answers.ok.values()
        for p in t.partitions
    }


async def _ages(admin: Admin, reads: Mapping[TopicPartition, Read]) -> dict[TopicPartition, int]:
    """The timestamp of the next record in the partitions with the most lag."""
    lagging = [tp for tp, read in reads.items() if read.lag and read.unread is not None]
    worst = sorted(lagging, key=lambda tp: -reads[tp].lag)[:_AGES]
    places = [(tp, max(reads[tp].unread or 0, reads[tp].start or 0)) for tp in worst]
    times = await admin.record_times(places)
    return {tp: at for (tp, _), at in times.ok.items() if at is not None}


def _unmoved(
    first: _Measurement, last: _Measurement, starts: Offsets, stable: Offsets
) -> dict[TopicPartition, tuple[int, int]]:
    """The ranges that a read_committed consumer could still read, in the partitions without
    progress that have the least lag."""
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
    """The partitions that have only aborted records and markers between two offsets.

    A partition that cannot be read, or not within `_PROBE_S`, is left out, as if it had a record.
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
    admin: Admin, measured: _Measurement, stable: Offsets
) -> dict[TopicPartition, PinningTransaction]:
    """The transactions that hold back the last stable offset, in the partitions with the most
    records after it."""
    held = {tp: end - stable[tp] for tp, end in measured.ends.items() if stable.get(tp, end) < end}
    most = sorted(held, key=lambda tp: -held[tp])[:_AGES]
    return await pinning_transactions(admin, most) if most else {}
