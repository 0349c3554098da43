"""`--throttle auto`: as fast as the rest of the cluster bears.

The rate begins low. While the copies use what they are given and no other replica suffers, it grows by half; when another
replica falls behind or leaves the in-sync set, it is halved. What another replica lacks is asked of a sample of partitions
that do not move, since a cluster has thousands; who left an in-sync set is known of all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pk.cli.cluster.replicas import log_ends
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin

AUTO: Final = "auto"
START_RATE: Final = 10_000_000
"""Bytes a second to begin with."""

FLOOR: Final = 1_000_000
CEILING: Final = 10_000_000_000
STEP_S: Final = 5.0
"""How often it is thought over."""

_USED = 0.6
"""A rate of which less is used is not what holds the copies back."""
_RECORDS = 1000
"""A follower that lacks no more has just not fetched yet."""
_SAMPLE = 60


class Pace:
    """The rate, and what changes it. Pure."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._lacking: set[TopicPartition] | None = None
        self._behind: int | None = None

    def step(self, *, used: float, lacking: Iterable[TopicPartition], behind: int) -> str | None:
        """Thinks it over. `used`: bytes a second that each broker takes in now; `lacking`: other partitions that lack an
        in-sync replica; `behind`: records that the worst of the other followers lacks. Says why the rate changed.
        """
        lacking = set(lacking)
        suffers = None
        if self._lacking is not None and lacking - self._lacking:
            suffers = "other replicas fell out of sync"
        elif self._behind is not None and behind > max(2 * self._behind, _RECORDS):
            suffers = "other replicas fall behind"
        self._lacking = lacking if self._lacking is None else self._lacking & lacking
        self._behind = behind if self._behind is None else min(self._behind, behind)
        before, why = self.rate, suffers
        if suffers is not None:
            self.rate = max(self.rate // 2, FLOOR)
        elif used >= _USED * self.rate:
            why = "there is room"
            self.rate = min(self.rate * 3 // 2, CEILING)
        return why if self.rate != before else None


def sample(
    partitions: Mapping[TopicPartition, r.PartitionDescription],
    moving: Iterable[TopicPartition],
    brokers: Iterable[int],
) -> dict[TopicPartition, r.PartitionDescription]:
    """Some partitions that do not move but lie on the brokers that copy."""
    moved, busy = set(moving), set(brokers)
    others = {
        tp: p
        for tp, p in partitions.items()
        if tp not in moved and len(p.replicas) > 1 and p.leader_id >= 0 and busy & set(p.replicas)
    }
    step = max(len(others) // _SAMPLE, 1)
    return dict(list(others.items())[::step][:_SAMPLE])


def worst(
    partitions: Mapping[TopicPartition, r.PartitionDescription],
    ends: Mapping[TopicPartition, Mapping[int, int]],
) -> int:
    """The most records that an in-sync follower lacks."""
    lags = [
        ends[tp][p.leader_id] - ends[tp][b]
        for tp, p in partitions.items()
        for b in p.isr
        if b in ends.get(tp, {}) and p.leader_id in ends[tp]
    ]
    return max(lags, default=0)


async def others(
    admin: Admin, moving: Sequence[TopicPartition], brokers: Iterable[int]
) -> tuple[list[TopicPartition], int]:
    """How the partitions fare that do not move: those that lack a replica, and the records that the worst follower lacks.

    Raises KafkaError, ClientError.
    """
    described = await admin.describe_topics()
    partitions = {
        TopicPartition(t.name, p.partition): p
        for t in described.values()
        if isinstance(t, r.TopicDescription)
        for p in t.partitions
    }
    moved = set(moving)
    lacking = [tp for tp, p in partitions.items() if tp not in moved and p.under_replicated]
    seen = sample(partitions, moving, brokers)
    return lacking, worst(seen, await log_ends(admin, seen))
