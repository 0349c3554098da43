"""`--throttle auto`: copies as fast as the cluster's other traffic allows.

The rate starts low. While the copies use the rate and no other replica falls behind, it grows by
half; if another replica falls behind or leaves the ISR, it is halved. The lag of other replicas is
measured on a sample of partitions that do not move, since a cluster may have thousands; changes of
the ISR are known for all.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pk.cli.cluster.replicas import log_ends
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin

AUTO: Final = "auto"
START_RATE: Final = 10_000_000
"""The rate at the start, in bytes per second."""

FLOOR: Final = 1_000_000
CEILING: Final = 10_000_000_000
STEP_S: Final = 5.0
"""How often the rate is adjusted, in seconds."""

_USED = 0.6
"""If the copies use less than this share of the rate, the rate does not limit them."""
_RECORDS = 1000
"""A follower that lacks at most this many records has just not fetched yet."""
_SAMPLE = 60


class Pace:
    """The rate, and the rules for changing it. Pure."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._lacking: set[TopicPartition] | None = None
        self._behind: int | None = None

    def step(self, *, used: float, lacking: Iterable[TopicPartition], behind: int) -> str | None:
        """Adjust the rate. Returns why it changed.

        `used` is the number of bytes per second that each broker receives; `lacking` are other
        partitions that lack an in-sync replica; `behind` is the number of records that the worst
        other follower lacks.
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
            why = "there is capacity"
            self.rate = min(self.rate * 3 // 2, CEILING)
        return why if self.rate != before else None


def sample(
    partitions: Mapping[TopicPartition, r.PartitionDescription],
    moving: Iterable[TopicPartition],
    brokers: Iterable[int],
) -> dict[TopicPartition, r.PartitionDescription]:
    """Some partitions that do not move, on the brokers that copy."""
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
    """The most records that any in-sync follower lacks."""
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
    """The state of partitions that do not move: those that lack an in-sync replica, and the number
    of records that the worst follower lacks.

    Raises KafkaError, ClientError.
    """
    described = await admin.describe_topics()
    partitions = {
        TopicPartition(t.name, p.partition): p for t in described.ok.values() for p in t.partitions
    }
    moved = set(moving)
    lacking = [tp for tp, p in partitions.items() if tp not in moved and p.under_replicated]
    seen = sample(partitions, moving, brokers)
    return lacking, worst(seen, await log_ends(admin, seen))
