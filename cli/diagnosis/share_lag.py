"""Reasons for the lag of a share group (KIP-932) that do not apply to a group that commits offsets.

The members of a share group take records from the same partitions and acknowledge each by itself. A
partition's start offset may therefore stay the same while later records are acknowledged: one
record is delivered again and again, or a member keeps it locked. Also, more members than partitions
help.
"""

import shlex
from collections.abc import Iterator

from pk.cli.diagnosis.explain import Evidence
from pk.cli.diagnosis.lag_facts import STILL_S, LagFacts, Reason
from pk.cli.diagnosis.snapshot import names
from pk.cli.phrases import count, join, partition_name
from pk.core.values import TopicPartition


def _look(tp: TopicPartition, offset: int) -> str:
    return f"pk consume {shlex.quote(tp.topic)} -p {tp.partition} -o {offset} -n 1 -f json"


def _members(f: LagFacts) -> str:
    return f"pk groups members {shlex.quote(f.group)}"


def not_begun(f: LagFacts) -> Iterator[Reason]:
    """Members that have not acknowledged anything."""
    if f.members and f.reads and all(read.later is None for read in f.reads.values()):
        yield Reason(
            "no-commits",
            "its members have just started, or fail before their first acknowledgement",
            (Evidence("start offsets", f"none for {count(len(f.reads), 'assigned partition')}"),),
            (_members(f),),
        )


def unmoved(f: LagFacts) -> Iterator[Reason]:
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


def idle(f: LagFacts) -> Iterator[Reason]:
    """Members without partitions."""
    unused = [m.name for m in f.members if not m.owned]
    if unused:
        yield Reason(
            "idle-members",
            f"{count(len(unused), 'member')} without partitions ({join(unused, 3)}): the topics "
            "they subscribe to do not exist",
            (Evidence("idle", join(unused, 3)),),
            (_members(f),),
        )
