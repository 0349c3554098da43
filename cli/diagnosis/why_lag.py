"""Explains the lag of a group, from two measurements that are some seconds apart.

Two measurements show whether records are written, whether offsets are committed, and whether the
group makes progress. A consumer with auto-commit commits every 5 s (auto.commit.interval.ms), so an
offset that has not changed for a shorter time proves nothing, and is not mentioned.

Some reasons apply only to share groups (`share_lag`), whose members share partitions and commit no
offsets.
"""

import shlex
from collections.abc import Iterator

from pk.cli.diagnosis import share_lag
from pk.cli.diagnosis.explain import Evidence, Explanation
from pk.cli.diagnosis.lag_facts import STILL_S, LagFacts, Read, Reason
from pk.cli.diagnosis.pinning_transaction import full_description, next_step, whose
from pk.cli.diagnosis.snapshot import names
from pk.cli.phrases import count, join, partition_name
from pk.cli.positions.times import show_span
from pk.core.values import TopicPartition

_EMPTY = frozenset(("Empty", "Dead"))
_CHANGING = frozenset(("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"))
_MOST = 0.8
"""A partition with more than this share of the lag is named as the main one."""


def _stopped(f: LagFacts) -> Iterator[Reason]:
    if f.state in _EMPTY and f.pipeline is None:
        yield Reason(
            "no-members",
            "it has no active consumers (they are stopped, or cannot join)",
            next=(f"pk groups describe {shlex.quote(f.group)}",),
        )


def _pipeline(f: LagFacts) -> Iterator[Reason]:
    """A pipeline that has stopped. It has no members, so only its commits show whether it runs."""
    if f.pipeline is None or not f.lag or any(read.progress for read in f.reads.values()):
        return
    name, batch, at_ms = f.pipeline
    age = show_span(max(f.now_ms - at_ms, 0))
    yield Reason(
        "pipeline-waits",
        f"it belongs to the pipeline {name}, which committed batch {batch} {age} ago and nothing "
        "since: it is stopped, it fails, or its batch takes that long",
        (Evidence("pipeline", f"{name}, batch {batch}, committed {age} ago"),),
        ("pk spark pipeline status FILE",),
    )


def _no_commits(f: LagFacts) -> Iterator[Reason]:
    if f.reads and all(read.later is None for read in f.reads.values()) and f.members:
        yield Reason(
            "no-commits",
            "its members have just started, fail before their first commit, or never commit "
            "(enable.auto.commit=false)",
            (Evidence("commits", f"none for {count(len(f.reads), 'assigned partition')}"),),
            (f"pk groups members {shlex.quote(f.group)}",),
        )


def _rebalancing(f: LagFacts) -> Iterator[Reason]:
    late = [m.name for m in f.members if m.behind_epoch]
    if f.state in _CHANGING:
        waits = f", waiting for {join(late, 3)}" if late else ""
        yield Reason(
            "rebalancing",
            f"it is rebalancing ({f.state}){waits}; until then it reads little or nothing",
            (Evidence("state", f.state),),
            (f"pk groups watch {shlex.quote(f.group)}",),
        )
    elif f.changed:
        yield Reason(
            "unsteady",
            (
                f"its members changed within {f.between_s:.0f} s: if that continues, it rebalances "
                "instead of reading"
            ),
            (Evidence("members", f"{len(f.members)}, not the same as a moment ago"),),
            (f"pk groups watch {shlex.quote(f.group)}",),
        )


def _all_deleted(f: LagFacts) -> Iterator[Reason]:
    """The unread records were deleted, and the lag stays. This comes before the reasons for a group
    that has records to read."""
    gone = f.lagging
    if not gone or not all(read.is_deleted for read in gone.values()):
        return
    then = (
        "it continues with the next record that is written"
        if f.is_share
        else "its lag stays until it reads there again, from where auto.offset.reset says, or is "
        "reset"
    )
    yield Reason(
        "all-deleted",
        f"its unread records in {names(gone)} were deleted, by retention or a trim: nothing is "
        f"left to read, and {then}",
        tuple(
            Evidence(
                partition_name(tp),
                f"{f.position} {gone[tp].later:,}, the log is empty and begins at "
                f"{gone[tp].start:,}",
            )
            for tp in sorted(gone)[:3]
        ),
        (f"pk groups reset-offsets {shlex.quote(f.group)} --to start --dry-run",),
    )


def _out_of_range(f: LagFacts) -> Iterator[Reason]:
    lost = {
        tp: read.start - at
        for tp, read in f.reads.items()
        if (at := read.unread) is not None and read.start is not None and at < read.start
    }
    if lost and not all(read.is_deleted for read in f.lagging.values()):
        yield Reason(
            "lost-records",
            f"its {f.position} is no longer in the log of {names(lost)}: {sum(lost.values()):,} "
            "records were deleted unread",
            tuple(
                Evidence(
                    partition_name(tp),
                    f"{f.position} {f.reads[tp].later:,}, the log starts at {f.reads[tp].start:,}",
                )
                for tp in sorted(lost)[:3]
            ),
            (f"pk groups reset-offsets {shlex.quote(f.group)} --to start --dry-run",),
        )
    beyond = [
        tp
        for tp, read in f.reads.items()
        if read.later is not None and read.later_end is not None and read.later > read.later_end
    ]
    if beyond:
        yield Reason(
            "beyond-the-end",
            (
                f"its {f.position} is beyond the end of {names(beyond)}: the topic was created "
                "again, or lost records"
            ),
            tuple(
                Evidence(
                    partition_name(tp),
                    f"{f.position} {f.reads[tp].later:,}, the log ends at {f.reads[tp].end:,}",
                )
                for tp in sorted(beyond)[:3]
            ),
            (f"pk groups reset-offsets {shlex.quote(f.group)} --to end --dry-run",),
        )


def _offline(f: LagFacts) -> Iterator[Reason]:
    bad = [tp for tp, read in f.reads.items() if read.leader < 0]
    if bad:
        yield Reason(
            "offline",
            f"{names(bad)} cannot be read: no leader",
            (Evidence("offline", names(bad)),),
            (
                (
                    "pk why partition "
                    f"{' '.join(shlex.quote(partition_name(tp)) for tp in sorted(bad)[:3])}"
                ),
            ),
        )


def _unowned(f: LagFacts) -> Iterator[Reason]:
    if not f.members or f.state in _CHANGING:
        return
    bad = {
        tp: read
        for tp, read in f.lagging.items()
        if read.owner is None and read.leader >= 0 and not read.is_deleted
    }
    if not bad:
        return
    gone = sorted({tp.topic for tp in bad} - f.subscribed) if f.subscribed else []
    why = f"no member subscribes to {join(gone, 3)} now" if gone else "no member is assigned them"
    yield Reason(
        "unassigned",
        f"{count(len(bad), 'partition')} with lag have no reader ({names(bad)}): {why}",
        (Evidence("unassigned", names(bad)),),
        (f"pk groups members {shlex.quote(f.group)}",),
    )


def _open_transaction(f: LagFacts) -> Iterator[Reason]:
    held = {tp: read for tp, read in f.reads.items() if read.waits}
    if not held:
        return
    topics = " ".join(sorted({shlex.quote(tp.topic) for tp in held}))
    first = next((r.pinned_by for _, r in sorted(held.items()) if r.pinned_by is not None), None)
    whom = f", {whose(first)}" if first is not None and len(held) == 1 else ""
    evidence: list[Evidence] = []
    for tp, read in sorted(held.items())[:3]:
        place = partition_name(tp)
        evidence.append(
            Evidence(place, f"last stable offset {read.stable:,}, log end {read.end:,}")
        )
        if read.pinned_by is not None:
            evidence.append(
                Evidence(f"open in {place}", full_description(read.pinned_by, f.now_ms))
            )
    steps = [
        step
        for tp, read in sorted(held.items())[:3]
        if read.pinned_by is not None
        if (step := next_step(tp, read.pinned_by, f.now_ms)) is not None
    ]
    yield Reason(
        "open-transaction",
        f"it has read all that read_committed allows: a transaction is open in {names(held)}{whom}",
        tuple(evidence),
        (*steps, f"pk transactions producers {topics}"),
    )


def _read_out(f: LagFacts) -> Iterator[Reason]:
    done = {tp: read for tp, read in f.lagging.items() if read.is_read_out}
    if not done:
        return
    evidence = [
        Evidence(partition_name(tp), f"committed {read.later:,}, log end {read.later_end:,}")
        for tp, read in sorted(done.items())[:3]
    ]
    if any(read.next_ms is not None for read in done.values()):
        evidence.append(
            Evidence(
                "read_uncommitted", "readers with that isolation level get the aborted records"
            )
        )
    yield Reason(
        "nothing-readable",
        f"nothing readable is left in {names(done)}: only aborted records and transaction markers "
        "follow its committed offset, and the lag stays until more is written",
        tuple(evidence),
    )


def _still(f: LagFacts) -> dict[TopicPartition, Read]:
    """The partitions with lag whose committed offset has not changed for long enough to matter."""
    if f.between_s < STILL_S or f.changed:
        return {}
    return {
        tp: read
        for tp, read in f.lagging.items()
        if read.owner is not None
        and read.committed == read.later
        and not (read.waits or read.is_read_out or read.is_deleted)
    }


def _stuck(f: LagFacts) -> Iterator[Reason]:
    still = _still(f)
    for member in f.members:
        mine = {
            tp
            for tp, read in f.lagging.items()
            if tp in member.owned and not (read.waits or read.is_read_out or read.is_deleted)
        }
        stood = sorted(mine & still.keys())
        if not stood:
            continue
        if len(stood) < len(mine):
            tp = stood[0]
            at = still[tp].later
            step = f"pk consume {shlex.quote(tp.topic)} -p {tp.partition} -o {at} -n 1 -f json"
            yield Reason(
                "stuck-partition",
                f"{member.name} reads its other partitions, but is stuck at {names(stood)}: "
                "it may fail again and again at the next record",
                (
                    Evidence(
                        partition_name(tp), f"committed {at}, unchanged for {f.between_s:.0f} s"
                    ),
                ),
                (step,) if at is not None else (),
            )
        else:
            yield Reason(
                "stuck-member",
                f"{member.name} has committed nothing for {f.between_s:.0f} s, but {names(stood)} "
                f"{'has' if len(stood) == 1 else 'have'} records for it: it takes long to process "
                "what it has, hangs, or does not commit",
                (Evidence("member", f"{member.name}, {member.member_id}"),),
                (f"pk groups members {shlex.quote(f.group)}",),
            )


def _too_slow(f: LagFacts) -> Iterator[Reason]:
    rates = f.rates
    if rates is None or not f.lag or rates[1] <= 0:
        return
    written, consumed = rates
    done = "acknowledged" if f.is_share else "read"
    both = f"{consumed:,.0f} records/s are {done} and {written:,.0f} written"
    evidence = (
        Evidence("written", f"{written:,.0f} records/s"),
        Evidence(done, f"{consumed:,.0f} records/s"),
    )
    if consumed > written:
        left = show_span(int(f.lag / (consumed - written) * 1000))
        yield Reason(
            "catching-up",
            f"it is catching up: {both}; at this rate it is done in {left}",
            evidence,
            (f"pk wait lag {shlex.quote(f.group)} --max 0 --timeout 1h",),
        )
        return
    if f.is_share:
        way = "more members would help, also more than there are partitions"
    elif f.pipeline is not None:
        way = "more cores would help, or a simpler step"
    elif len(f.reads) > len(f.members):
        way = "more members would help: there are enough partitions"
    else:
        way = "it has as many members as partitions; more of both, or faster members"
    yield Reason(
        "too-slow",
        f"it is slower than the writers: {both}; {way}",
        evidence,
        (f"pk groups lag {shlex.quote(f.group)}",),
    )


def _skew(f: LagFacts) -> Iterator[Reason]:
    lagging = f.lagging
    if len(f.reads) > 1 and lagging and f.members:
        worst = max(lagging, key=lambda tp: lagging[tp].lag)
        share = lagging[worst].lag / f.lag
        if share > _MOST and f.lag > 100:
            slow = "" if f.is_share else ", or one slow member"
            yield Reason(
                "skew",
                f"{share:.0%} of the lag is in one partition, {partition_name(worst)}: many "
                f"records with few keys{slow}",
                (Evidence(partition_name(worst), f"lag {lagging[worst].lag:,} of {f.lag:,}"),),
                (f"pk topics offsets {shlex.quote(worst.topic)}",),
            )


def _idle(f: LagFacts) -> Iterator[Reason]:
    idle = [m.name for m in f.members if not m.owned]
    if idle and f.state not in _CHANGING:
        yield Reason(
            "idle-members",
            f"{count(len(idle), 'member')} without partitions ({join(idle, 3)}): "
            f"{len(f.members)} members for {count(len(f.reads), 'partition')}",
            (Evidence("idle", join(idle, 3)),),
            (f"pk groups members {shlex.quote(f.group)}",),
        )


_COMMITTING_REASONS = (
    _all_deleted,
    _stopped,
    _pipeline,
    _offline,
    _out_of_range,
    _rebalancing,
    _no_commits,
    _unowned,
    _open_transaction,
    _read_out,
    _stuck,
    _too_slow,
    _skew,
    _idle,
)
_REASONS_OF_SHARE_GROUPS = (
    _all_deleted,
    _stopped,
    _offline,
    _out_of_range,
    _unowned,
    _open_transaction,
    share_lag.not_begun,
    share_lag.unmoved,
    _too_slow,
    _skew,
    share_lag.idle,
)


def explain_lag(f: LagFacts) -> Explanation:
    """The verdict on the lag of a group."""
    kinds = _REASONS_OF_SHARE_GROUPS if f.is_share else _COMMITTING_REASONS
    found = [reason for reasons in kinds for reason in reasons(f)]
    head = f"Group {f.group} lags by {count(f.lag, 'record')}"
    if found and found[0].state == "no-commits":
        there = sum((read.later_end or 0) - (read.start or 0) for read in f.reads.values())
        head = f"Group {f.group} has no {f.position}s, and {count(there, 'record')} to read"
    if not f.lag and all(r.state in ("no-members", "idle-members") for r in found):
        away = next((r for r in found if r.state == "no-members"), None)
        note = "; it has no members at the moment" if away else ""
        verdict = (
            f"Group {f.group} does not lag: it has read all of "
            f"{count(len(f.reads), 'partition')}{note}."
        )
        return Explanation(f.group, "no-lag", verdict, tuple(_facts(f)))
    if not found:
        longer_s = max(int(STILL_S), int(f.between_s * 2)) + 1
        verdict = (
            f"{head}, without a visible cause: {count(len(f.members), 'member')}, {f.state}. "
            f"Measure for longer with --for {longer_s}s."
        )
        again = f"pk why lag {shlex.quote(f.group)} --for {longer_s}s"
        return Explanation(f.group, "unclear", verdict, tuple(_facts(f)), (again,))
    first, *others = found
    evidence = [*_facts(f), *first.evidence]
    for other in others:
        evidence.append(Evidence("also", other.verdict))
        if other.state == "open-transaction":  # its owner matters even if it is not the verdict
            evidence += other.evidence
    steps = dict.fromkeys(step for reason in found for step in reason.next)
    return Explanation(
        f.group, first.state, f"{head}: {first.verdict}.", tuple(evidence), tuple(steps)
    )


def _facts(f: LagFacts) -> Iterator[Evidence]:
    owned = sum(bool(m.owned) for m in f.members)
    members = (
        f"{count(len(f.members), 'member')}, {owned} with partitions" if f.members else "no members"
    )
    yield Evidence("group", f"{f.state}, {members}")
    lagging = f.lagging
    if not lagging:
        return
    yield Evidence(
        "lag", f"{count(f.lag, 'record')} in {len(lagging)} of {count(len(f.reads), 'partition')}"
    )
    worst = sorted(lagging, key=lambda tp: -lagging[tp].lag)[:3]
    for tp in worst:
        read = lagging[tp]
        readers = f.readers(tp)
        who = ", no reader" if f.members else ""
        if len(readers) == 1:
            who = f", read by {readers[0].name}"
        elif readers:
            who = f", read by {count(len(readers), 'member')}"
        age = ""
        if read.next_ms is not None and f.now_ms > read.next_ms and not read.is_read_out:
            age = f", the next record is {show_span(f.now_ms - read.next_ms)} old"
        yield Evidence(partition_name(tp), f"lag {read.lag:,}{age}{who}")
