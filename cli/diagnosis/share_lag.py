"""Why a share group lags (KIP-932), for the reasons that do not apply to a group that commits
offsets.

The members of a share group take records from the same partitions and acknowledge each by itself. A
partition's start offset may therefore stay the same while later records are acknowledged: one
record is delivered again and again, or a member keeps it locked. And more members than partitions
help.
"""

import shlex
from collections.abc import Iterator

from pk.cli.diagnosis.explain import Evidence
from pk.cli.diagnosis.lag_facts import STILL_S, LagFacts, Reason
from pk.cli.diagnosis.snapshot import names
from pk.cli.phrases import count, join, partition_name
from pk.cli.positions.times import show_span
from pk.core.values import TopicPartition

_MOST = 0.8
"""One partition with more than this share of the lag is the place to look."""


def _look(tp: TopicPartition, offset: int) -> str:
    return f"pk consume {shlex.quote(tp.topic)} -p {tp.partition} -o {offset} -n 1 -f json"


def _members(f: LagFacts) -> str:
    return f"pk groups members {shlex.quote(f.group)}"


def _not_begun(f: LagFacts) -> Iterator[Reason]:
    if f.members and f.reads and all(read.later is None for read in f.reads.values()):
        yield Reason(
            "no-commits",
            "its members have just started, or fail before their first acknowledgement",
            (Evidence("start offsets", f"none for {count(len(f.reads), 'assigned partition')}"),),
            (_members(f),),
        )


def _unmoved(f: LagFacts) -> Iterator[Reason]:
    """Partitions whose start offset has not changed for long enough to matter."""
    if f.between_s < STILL_S or f.changed:
        return
    still = {
        tp: read.later
        for tp, read in f.lagging.items()
        if read.owner is not None
        and read.later is not None
        and read.committed == read.later
        and not (read.waits or read.is_deleted)
    }
    stuck = [tp for tp in sorted(still) if f.reads[tp].progress <= 0]
    if stuck:
        yield Reason(
            "stuck-share-group" if len(stuck) == len(f.lagging) else "stuck-partition",
            f"nothing was acknowledged in {names(stuck)} for {f.between_s:.0f} s: its members "
            "take long to process what they have, hang, release what they get, or do not "
            "acknowledge",
            tuple(_unchanged(f, tp, still[tp]) for tp in stuck[:3]),
            (*(_look(tp, still[tp]) for tp in stuck[:1]), _members(f)),
        )
    held = [tp for tp in sorted(still) if f.reads[tp].progress > 0]
    if held:
        yield Reason(
            "held-back",
            f"records are acknowledged in {names(held)}, but not the first one there: it is "
            "released again and again, or a member keeps it locked",
            tuple(_unchanged(f, tp, still[tp]) for tp in held[:3]),
            tuple(_look(tp, still[tp]) for tp in held[:1]),
        )


def _unchanged(f: LagFacts, tp: TopicPartition, offset: int) -> Evidence:
    return Evidence(
        partition_name(tp), f"start offset {offset:,}, unchanged for {f.between_s:.0f} s"
    )


def _too_slow(f: LagFacts) -> Iterator[Reason]:
    rates = f.rates
    if rates is None or not f.lag or rates[1] <= 0:
        return
    written, acknowledged = rates
    evidence = (
        Evidence("written", f"{written:,.0f} records/s"),
        Evidence("acknowledged", f"{acknowledged:,.0f} records/s"),
    )
    both = f"{acknowledged:,.0f} records/s are acknowledged and {written:,.0f} written"
    if acknowledged > written:
        left = show_span(int(f.lag / (acknowledged - written) * 1000))
        yield Reason(
            "catching-up",
            f"it is catching up: {both}; at this rate it is done in {left}",
            evidence,
            (f"pk wait lag {shlex.quote(f.group)} --max 0 --timeout 1h",),
        )
        return
    yield Reason(
        "too-slow",
        (
            f"it is slower than the writers: {both}; more members would help, also more than there "
            "are partitions"
        ),
        evidence,
        (f"pk groups lag {shlex.quote(f.group)}",),
    )


def _skew(f: LagFacts) -> Iterator[Reason]:
    lagging = f.lagging
    if len(f.reads) > 1 and lagging and f.members:
        worst = max(lagging, key=lambda tp: lagging[tp].lag)
        share = lagging[worst].lag / f.lag
        if share > _MOST and f.lag > 100:
            yield Reason(
                "skew",
                (
                    f"{share:.0%} of the lag is in one partition, {partition_name(worst)}: many "
                    "records with few keys"
                ),
                (Evidence(partition_name(worst), f"lag {lagging[worst].lag:,} of {f.lag:,}"),),
                (f"pk topics offsets {shlex.quote(worst.topic)}",),
            )


def _idle(f: LagFacts) -> Iterator[Reason]:
    idle = [m.name for m in f.members if not m.owned]
    if idle:
        yield Reason(
            "idle-members",
            (
                f"{count(len(idle), 'member')} without partitions ({join(idle, 3)}): the topics "
                "they subscribe to do not exist"
            ),
            (Evidence("idle", join(idle, 3)),),
            (_members(f),),
        )


SHARE_REASONS = (_not_begun, _unmoved, _too_slow, _skew, _idle)
