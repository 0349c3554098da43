"""Why a group lags: from two looks at it, some seconds apart, to sentences.

What two looks show: whether anything is written, whether anything is committed, and whether the group stands still. A consumer that
commits by itself does so every 5 s (auto.commit.interval.ms), so a commit that stands still for less proves nothing, and
nothing is said of it.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pk.cli.diagnosis.explain import Evidence, Explanation
from pk.cli.diagnosis.pinning_transaction import PinningTransaction, in_full, next_step, whose
from pk.cli.diagnosis.readers import duration
from pk.cli.diagnosis.snapshot import names
from pk.cli.runtime.context import count, join, place_name
from pk.core.values import TopicPartition

STILL_S = 5.5
"""A commit that has not moved for so long does not move by itself."""
_EMPTY = frozenset(("Empty", "Dead"))
_CHANGING = frozenset(("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"))
_MOST = 0.8
"""One partition with more than that share of the lag is where to look."""


class Member(NamedTuple):
    """A member of the group."""

    member_id: str
    client_id: str
    host: str
    owned: frozenset[TopicPartition]
    behind_epoch: bool = False
    """Whether it has not yet come to the group's epoch (KIP-848)."""

    @property
    def name(self) -> str:
        return f"{self.client_id or self.member_id} ({self.host.lstrip('/')})"


class Read(NamedTuple):
    """One partition, at the first and the second look. Offsets are None where there is none or nobody says."""

    committed: int | None
    later: int | None
    start: int | None
    end: int | None
    later_end: int | None
    stable: int | None
    leader: int
    owner: str | None
    """The member id of whoever is assigned it."""

    next_ms: int | None = None
    """The time of the next record to be read."""

    nothing_readable: bool = False
    """Whether a read_committed reader finds no record from the commit up to the last stable offset."""

    pinned_by: PinningTransaction | None = None
    """The transaction that holds the last stable offset before the end, as far as anyone says."""

    @property
    def is_pinned(self) -> bool:
        """Whether an open transaction holds the last stable offset before the end."""
        return self.stable is not None and self.stable < (self.end or 0)

    @property
    def waits(self) -> bool:
        """Whether a read_committed reader waits for the transaction that is open at the last stable offset."""
        if self.stable is None or not self.is_pinned:
            return False
        at = self.start if self.later is None else self.later
        return self.nothing_readable or (at is not None and at >= self.stable)

    @property
    def is_read_out(self) -> bool:
        """Whether only aborted records and markers lie between the commit and the end."""
        return self.nothing_readable and not self.is_pinned

    @property
    def lag(self) -> int:
        """As `pk groups lag` counts it, deleted records too; 0 where nothing is left to read."""
        if self.later_end is None or self.later is None:
            return 0
        unread = self.later_end > max(self.later, self.start or 0)
        return self.later_end - self.later if unread else 0


class LagFacts(NamedTuple):
    """A group, and what it reads."""

    group: str
    state: str
    members: Sequence[Member]
    reads: Mapping[TopicPartition, Read]
    between_s: float = 0.0
    changed: bool = False
    """Whether members or generation changed between the looks."""

    subscribed: frozenset[str] = frozenset()
    now_ms: int = 0

    @property
    def lag(self) -> int:
        return sum(read.lag for read in self.reads.values())

    @property
    def lagging(self) -> dict[TopicPartition, Read]:
        return {tp: read for tp, read in self.reads.items() if read.lag}

    def member(self, member_id: str | None) -> Member | None:
        return next((m for m in self.members if m.member_id == member_id), None)


class Reason(NamedTuple):
    """One reason for the lag; the first one found is the verdict's."""

    state: str
    verdict: str
    evidence: tuple[Evidence, ...] = ()
    next: tuple[str, ...] = ()


def _quoted(group: str) -> str:
    return shlex.quote(group)


def _stopped(f: LagFacts) -> Iterator[Reason]:
    if f.state in _EMPTY:
        yield Reason(
            "no-members",
            f"it has no active consumers: the group is {f.state.lower()}, its consumers are stopped or cannot join",
            next=(f"pk groups describe {_quoted(f.group)}",),
        )


def _no_commits(f: LagFacts) -> Iterator[Reason]:
    if f.reads and all(read.later is None for read in f.reads.values()) and f.members:
        yield Reason(
            "no-commits",
            "its members have just started, fail before their first commit, or never commit "
            "(enable.auto.commit=false)",
            (Evidence("commits", f"none for {count(len(f.reads), 'assigned partition')}"),),
            (f"pk groups members {_quoted(f.group)}",),
        )


def _rebalancing(f: LagFacts) -> Iterator[Reason]:
    late = [m.name for m in f.members if m.behind_epoch]
    if f.state in _CHANGING:
        waits = f", it waits for {join(late, 3)}" if late else ""
        yield Reason(
            "rebalancing",
            f"it is rebalancing ({f.state}){waits}; meanwhile little or nothing is read",
            (Evidence("state", f.state),),
            (f"pk groups watch {_quoted(f.group)}",),
        )
    elif f.changed:
        yield Reason(
            "unsteady",
            f"its members changed within {f.between_s:.0f} s: if that goes on, it rebalances instead of reading",
            (Evidence("members", f"{len(f.members)}, and not the same as a moment ago"),),
            (f"pk groups watch {_quoted(f.group)}",),
        )


def _out_of_range(f: LagFacts) -> Iterator[Reason]:
    lost = {
        tp: read.start - read.later
        for tp, read in f.reads.items()
        if read.later is not None and read.start is not None and read.later < read.start
        if (read.end or 0) > read.start
    }
    if lost:
        yield Reason(
            "lost-records",
            f"its committed offset is no longer in the log of {names(lost)}: {sum(lost.values()):,} records were "
            "deleted unread",
            tuple(
                Evidence(
                    place_name(tp),
                    f"committed {f.reads[tp].later:,}, the log starts at {f.reads[tp].start:,}",
                )
                for tp in sorted(lost)[:3]
            ),
            (f"pk groups reset-offsets {_quoted(f.group)} --to start --dry-run",),
        )
    beyond = [
        tp
        for tp, read in f.reads.items()
        if read.later is not None and read.later_end is not None and read.later > read.later_end
    ]
    if beyond:
        yield Reason(
            "beyond-the-end",
            f"it has committed offsets beyond the end of {names(beyond)}: the topic was made again, or lost records",
            tuple(
                Evidence(
                    place_name(tp),
                    f"committed {f.reads[tp].later:,}, the log ends at {f.reads[tp].end:,}",
                )
                for tp in sorted(beyond)[:3]
            ),
            (f"pk groups reset-offsets {_quoted(f.group)} --to end --dry-run",),
        )


def _offline(f: LagFacts) -> Iterator[Reason]:
    bad = [tp for tp, read in f.reads.items() if read.leader < 0]
    if bad:
        yield Reason(
            "offline",
            f"{names(bad)} cannot be read: without a leader",
            (Evidence("offline", names(bad)),),
            (
                f"pk why partition {' '.join(shlex.quote(place_name(tp)) for tp in sorted(bad)[:3])}",
            ),
        )


def _unowned(f: LagFacts) -> Iterator[Reason]:
    if not f.members or f.state in _CHANGING:
        return
    bad = {tp: read for tp, read in f.lagging.items() if read.owner is None and read.leader >= 0}
    if not bad:
        return
    gone = sorted({tp.topic for tp in bad} - f.subscribed) if f.subscribed else []
    why = (
        f"no member subscribes to {join(gone, 3)} any more"
        if gone
        else "no member is assigned them"
    )
    yield Reason(
        "unassigned",
        f"{count(len(bad), 'partition')} with lag are read by nobody ({names(bad)}): {why}",
        (Evidence("unassigned", names(bad)),),
        (f"pk groups members {_quoted(f.group)}",),
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
        place = place_name(tp)
        evidence.append(
            Evidence(place, f"last stable offset {read.stable:,}, log end {read.end:,}")
        )
        if read.pinned_by is not None:
            evidence.append(Evidence(f"open in {place}", in_full(read.pinned_by, f.now_ms)))
    steps = [
        step
        for tp, read in sorted(held.items())[:3]
        if read.pinned_by is not None
        if (step := next_step(tp, read.pinned_by, f.now_ms)) is not None
    ]
    yield Reason(
        "open-transaction",
        f"it has read all that a read_committed reader may: a transaction is open in {names(held)}{whom}",
        tuple(evidence),
        (*steps, f"pk producers describe {topics}"),
    )


def _read_out(f: LagFacts) -> Iterator[Reason]:
    done = {tp: read for tp, read in f.lagging.items() if read.is_read_out}
    if not done:
        return
    evidence = [
        Evidence(place_name(tp), f"committed {read.later:,}, log end {read.later_end:,}")
        for tp, read in sorted(done.items())[:3]
    ]
    if any(read.next_ms is not None for read in done.values()):
        evidence.append(
            Evidence(
                "read_uncommitted", "a reader of that isolation level gets the aborted records"
            )
        )
    yield Reason(
        "nothing-readable",
        f"nothing readable is left in {names(done)}: only aborted records and markers of transactions lie between "
        "its commit and the end, and the lag stays until more is written",
        tuple(evidence),
    )


def _still(f: LagFacts) -> dict[TopicPartition, Read]:
    """The partitions with lag whose commit stood still for long enough to say so."""
    if f.between_s < STILL_S or f.changed:
        return {}
    return {
        tp: read
        for tp, read in f.lagging.items()
        if read.owner is not None
        and read.committed == read.later
        and not (read.waits or read.is_read_out)
    }


def _stuck(f: LagFacts) -> Iterator[Reason]:
    still = _still(f)
    for member in f.members:
        mine = {
            tp
            for tp, read in f.lagging.items()
            if tp in member.owned and not (read.waits or read.is_read_out)
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
                f"{member.name} reads its other partitions, but {names(stood)} stands still: perhaps it fails at the "
                f"record there, again and again",
                (Evidence(place_name(tp), f"committed {at}, unmoved for {f.between_s:.0f} s"),),
                (step,) if at is not None else (),
            )
        else:
            yield Reason(
                "stuck-member",
                f"{member.name} has committed nothing for {f.between_s:.0f} s, though {names(stood)} "
                f"{'has' if len(stood) == 1 else 'have'} records for it: it works long on what it has, hangs, or "
                "does not commit",
                (Evidence("member", f"{member.name}, {member.member_id}"),),
                (f"pk groups members {_quoted(f.group)}",),
            )


def _rates(f: LagFacts) -> tuple[float, float] | None:
    """Records written and records committed, a second."""
    if f.between_s <= 0:
        return None
    written = read_ = 0
    for read in f.reads.values():
        if read.end is not None and read.later_end is not None:
            written += read.later_end - read.end
        if read.committed is not None and read.later is not None:
            read_ += max(read.later - read.committed, 0)
    return written / f.between_s, read_ / f.between_s


def _too_slow(f: LagFacts) -> Iterator[Reason]:
    rates = _rates(f)
    if rates is None or not f.lag or rates[1] <= 0:
        return
    written, consumed = rates
    evidence = (
        Evidence("written", f"{written:,.0f} records/s"),
        Evidence("read", f"{consumed:,.0f} records/s"),
    )
    if consumed > written:
        left = duration(int(f.lag / (consumed - written) * 1000))
        yield Reason(
            "catching-up",
            f"it is catching up: {consumed:,.0f} records/s are read and {written:,.0f} written; done in {left} at "
            "that rate",
            evidence,
            (f"pk wait lag {_quoted(f.group)} --max 0 --timeout 1h",),
        )
        return
    more = len(f.reads) > len(f.members)
    way = (
        "more members would help, there are partitions for them"
        if more
        else "it has as many members as partitions; more of both, or faster members"
    )
    yield Reason(
        "too-slow",
        f"it is slower than the writers: {consumed:,.0f} records/s are read and {written:,.0f} written; {way}",
        evidence,
        (f"pk groups lag {_quoted(f.group)}",),
    )


def _skew(f: LagFacts) -> Iterator[Reason]:
    lagging = f.lagging
    if len(f.reads) > 1 and lagging and f.members:
        worst = max(lagging, key=lambda tp: lagging[tp].lag)
        share = lagging[worst].lag / f.lag
        if share > _MOST and f.lag > 100:
            yield Reason(
                "skew",
                f"{share:.0%} of the lag is in one partition, {place_name(worst)}: many records with few keys, or one "
                "slow member",
                (Evidence(place_name(worst), f"lag {lagging[worst].lag:,} of {f.lag:,}"),),
                (f"pk topics offsets {shlex.quote(worst.topic)}",),
            )


def _idle(f: LagFacts) -> Iterator[Reason]:
    idle = [m.name for m in f.members if not m.owned]
    if idle and f.state not in _CHANGING:
        yield Reason(
            "idle-members",
            f"{count(len(idle), 'member')} without a partition to read ({join(idle, 3)}): "
            f"{len(f.members)} members for {count(len(f.reads), 'partition')}",
            (Evidence("idle", join(idle, 3)),),
            (f"pk groups members {_quoted(f.group)}",),
        )


_REASONS = (
    _stopped,
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


def explain_lag(f: LagFacts) -> Explanation:
    """The verdict on a group's lag."""
    found = [reason for reasons in _REASONS for reason in reasons(f)]
    head = f"Group {f.group} lags by {count(f.lag, 'record')}"
    if found and found[0].state == "no-commits":
        there = sum((read.later_end or 0) - (read.start or 0) for read in f.reads.values())
        head = f"Group {f.group} has committed nothing, where {count(there, 'record')} can be read"
    if not f.lag and all(r.state in ("no-members", "idle-members") for r in found):
        away = next((r for r in found if r.state == "no-members"), None)
        note = "; it has no members at the moment" if away else ""
        verdict = f"Group {f.group} does not lag: it has read all of {count(len(f.reads), 'partition')}{note}."
        return Explanation(f.group, "no-lag", verdict, tuple(_facts(f)))
    if not found:
        verdict = (
            f"{head}, and nothing is wrong that can be seen: {count(len(f.members), 'member')}, "
            f"{f.state}. Look longer with --for {max(int(STILL_S) + 1, int(f.between_s * 2) + 1)}."
        )
        again = (
            f"pk why lag {_quoted(f.group)} --for {max(int(STILL_S) + 1, int(f.between_s * 2) + 1)}"
        )
        return Explanation(f.group, "unclear", verdict, tuple(_facts(f)), (again,))
    first, *others = found
    evidence = [*_facts(f), *first.evidence]
    for other in others:
        evidence.append(Evidence("also", other.verdict))
        if (
            other.state == "open-transaction"
        ):  # Whose it is counts also where it is not the verdict.
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
        owner = f.member(read.owner)
        who = f", read by {owner.name}" if owner else ", read by nobody" if f.members else ""
        age = ""
        if read.next_ms is not None and f.now_ms > read.next_ms and not read.is_read_out:
            age = f", the next record is {duration(f.now_ms - read.next_ms)} old"
        yield Evidence(place_name(tp), f"lag {read.lag:,}{age}{who}")
