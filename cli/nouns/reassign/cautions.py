"""Describes the effect of a plan on the cluster: the total that it moves, and undesirable
effects."""

from collections.abc import Iterable, Mapping

from pk.cli.nouns.reassign.cluster_state import Live
from pk.cli.nouns.reassign.plan import Change
from pk.cli.phrases import count, join, partition_name
from pk.core.values import TopicPartition

_FULL = 0.85
"""A disk that will be fuller than this causes a warning."""


def cautions(live: Live, changes: Iterable[Change], min_isr: Mapping[str, int]) -> list[str]:
    """The undesirable effects of a plan, a sentence each."""
    changes = list(changes)
    racks = live.state.racks
    said: list[str] = []

    def add(partitions: list[TopicPartition], what: str) -> None:
        if partitions:
            first = partition_name(partitions[0])
            more = f" and {len(partitions) - 1} more" if len(partitions) > 1 else ""
            said.append(f"{first}{more}: {what}.")

    fewer = [c.tp for c in changes if len(c.after) < min_isr.get(c.tp.topic, 1)]
    add(fewer, "fewer replicas than min.insync.replicas, so acks=all is refused")
    overlap = [c.tp for c in changes if c.tp in live.running]
    add(overlap, "already being moved; this changes the target")
    stuck = [c.tp for c in changes if c.adding and live.partitions[c.tp].leader_id < 0]
    add(stuck, "no leader to copy from, so the move waits until there is one")
    if all(racks.values()) and len(set(racks.values())) > 1:
        alone = [
            c.tp for c in changes if len(c.after) > 1 and len({racks.get(b) for b in c.after}) == 1
        ]
        add(alone, "all replicas in one rack")
    if live.silent and changes:
        who = f"broker{'s'[: len(live.silent) > 1]} {join([str(b) for b in live.silent])}"
        said.append(f"The disk contents and free space of {who} are unknown.")
    arriving: dict[int, int] = {}
    for change in changes:
        for broker in change.adding:
            arriving[broker] = arriving.get(broker, 0) + (change.size or 0)
    for broker, size in sorted(arriving.items()):
        total, usable = live.disks.get(broker, (0, 0))
        if total and size > usable:
            said.append(f"Broker {broker} has too little disk space for the replicas it will get.")
        elif total and size and total - usable + size > _FULL * total:
            part = (total - usable + size) / total
            said.append(f"Broker {broker}'s disks will be {part:.0%} full.")
    return said


def totals(changes: Iterable[Change], partitions: int) -> str:
    """`12 of 600 partitions change, 14 replicas move (8.4 GB), 3 preferred leaders change`."""
    from pk.cli.output.amounts import show_bytes

    changes = list(changes)
    moved = sum(len(c.adding) for c in changes)
    dropped = sum(len(c.removing) for c in changes) - moved
    known = [c.bytes for c in changes if c.bytes is not None]
    unknown = len(known) < len(changes)
    parts = [f"{len(changes):,} of {count(partitions, 'partition')} changes"]
    if len(changes) != 1:
        parts = [f"{len(changes):,} of {count(partitions, 'partition')} change"]
    if moved:
        size = show_bytes(sum(known)) + (" plus unknown sizes" if unknown else "")
        parts.append(f"{count(moved, 'replica')} to copy ({size})")
    if dropped > 0:
        parts.append(f"{count(dropped, 'replica')} fewer")
    leaders = sum(c.moves_leader for c in changes)
    if leaders:
        parts.append(
            f"{count(leaders, 'preferred leader')} {'changes' if leaders == 1 else 'change'}"
        )
    return ", ".join(parts)
