"""The selection of a seed: a few workloads, settings and kinds of faults, drawn for each seed
(swarm testing).

A run with everything at once is expensive, and its parts get in each other's way: events that need
a broker with little else to do never happen there. So each seed draws a part of everything, and
seeds differ in it. `Options.everything` (`--everything`) turns all of it on.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

RECORDS: Final = "records"
"""Idempotent producers, and a consumer, of a topic with three replicas."""
SYNCED: Final = "synced"
"""A producer and a consumer of a topic that is flushed with each batch, on one replica."""
ONE: Final = "one"
"""acks=1, and a consumer, on up to two replicas of which one is enough."""
DEALS: Final = "deals"
CLASSIC_GROUP: Final = "classic group"
CONSUMER_GROUP: Final = "consumer group"
SHARE_GROUP: Final = "share group"
TRANSACTIONS: Final = "transactions"
CHAIN: Final = "chain"
"""Workers that read committed records, write, and commit their offsets, all in one transaction."""

NEEDS: Final = {
    CLASSIC_GROUP: RECORDS,
    CONSUMER_GROUP: RECORDS,
    SHARE_GROUP: RECORDS,
    CHAIN: TRANSACTIONS,
}
WORKLOADS: Final = (RECORDS, SYNCED, ONE, DEALS, TRANSACTIONS, *(n for n in NEEDS))

ROLLS: Final = "rolls"
"""Segments last for seconds, not for days."""
COMPACTION: Final = "compaction"
"""Internal topics are compacted as soon as there is anything to compact."""
LATE_SNAPSHOTS: Final = "late snapshots"
"""Each snapshot of producers is left to the flush after the roll, as only large ones are
otherwise."""
SETTINGS: Final = (ROLLS, COMPACTION, LATE_SNAPSHOTS)

WRECKS: Final = "wrecks"
"""Disks are damaged, on all but a few brokers at once (wrecks.py)."""
WRECKS_CHANCE: Final = 0.35

ROT: Final = "rot"
"""Closed segments are damaged on running brokers (rot.py). Needs segments that end soon."""
ROT_CHANCE: Final = 0.6

TIERED: Final = "tiered"
"""A topic whose segments are copied to a store that fails (tiered.py)."""
TIERED_CHANCE: Final = 0.3
"""Drawn apart, as wrecks are: seeds without it run as before."""

PARTS: Final = (*WORKLOADS, *SETTINGS, WRECKS, ROT, TIERED)

WORKLOAD_CHANCE: Final = 0.3
SETTING_CHANCE: Final = 0.5
FAULT_CHANCE: Final = 0.7
DURATIONS_S: Final = (5.0, 10.0, 20.0)
"""How long faults happen; one is drawn."""
LONG_DURATIONS_S: Final = (8.0, 15.0, 25.0)
"""The same, with everything on."""


@dataclass(frozen=True, slots=True)
class Swarm:
    """The selection of one seed."""

    on: frozenset[str]
    """Workloads and settings."""
    faults: frozenset[str]
    """Kinds of faults."""
    durations_s: tuple[float, ...]

    def __contains__(self, name: str) -> bool:
        return name in self.on


def everything(kinds: tuple[str, ...]) -> Swarm:
    """All of it; `kinds` are the kinds of faults there are."""
    return Swarm(frozenset(PARTS), frozenset(kinds), LONG_DURATIONS_S)


def draw(seed: int, kinds: tuple[str, ...]) -> Swarm:
    """The selection of a seed. It uses a random generator of its own, so a change here does not
    change other decisions."""
    random = Random(f"{seed}/swarm")
    on = {name for name in WORKLOADS if random.random() < WORKLOAD_CHANCE}
    on |= {NEEDS[name] for name in on if name in NEEDS}
    on = on or {RECORDS}
    on |= {name for name in SETTINGS if random.random() < SETTING_CHANCE}
    if Random(f"{seed}/wrecks").random() < WRECKS_CHANCE:
        on.add(WRECKS)
    if ROLLS in on and Random(f"{seed}/closed segments").random() < ROT_CHANCE:
        on.add(ROT)
    if Random(f"{seed}/tiered").random() < TIERED_CHANCE:
        on.add(TIERED)
    faults = {kind for kind in kinds if random.random() < FAULT_CHANCE}
    return Swarm(frozenset(on), frozenset(faults or kinds), DURATIONS_S)
