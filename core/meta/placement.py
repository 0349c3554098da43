"""The placement of new replicas: leaders are spread evenly over brokers, and replicas of a
partition over racks.

The brokers form a ring in which racks alternate (a1 b1 c1 a2 b2 …). Partition p is led by the p-th
broker of the ring after a random start. Its followers come from further along the ring, and are
shifted by one more broker after each trip around it, so that the followers of one broker's
partitions are spread over all other brokers. A broker whose rack already has a replica is skipped
while there are racks that have none.

A fenced broker may get a replica if there are not enough others, but it leads nothing.
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Protocol, TypeVar

from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.image import BrokerImage

T = TypeVar("T")


class RandomSource(Protocol):
    """The random choices needed here. A seeded `random.Random` makes a run reproducible."""

    def randrange(self, stop: int, /) -> int: ...
    def randbytes(self, n: int, /) -> bytes: ...


def place(
    brokers: Iterable[BrokerImage],
    partitions: int,
    replication_factor: int,
    random: RandomSource,
    first_partition: int = 0,
) -> list[tuple[int, ...]]:
    """Choose the replicas of `partitions` new partitions. The first of each is the preferred
    leader.

    Raises KafkaError(INVALID_REPLICATION_FACTOR) if there are not enough brokers, or none that may
    lead.
    """
    known = sorted(brokers, key=lambda b: b.broker_id)
    leaders = _ring([b for b in known if b.may_lead])
    others = _ring([b for b in known if not b.may_lead])
    if replication_factor > len(known):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target "
            f"replication factor of {replication_factor} cannot be reached because only "
            f"{len(known)} broker(s) are registered.",
        )
    if not leaders:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "there is no broker that could lead a partition"
        )
    start = random.randrange(len(leaders))
    shift = random.randrange(len(leaders))
    placed: list[tuple[int, ...]] = []
    for number in range(first_partition, first_partition + partitions):
        turn = number // len(leaders)
        at = (number + start) % len(leaders)
        rest = [*leaders[at + 1 :], *leaders[:at]]
        if rest:
            by = (shift + turn) % len(rest)
            rest = [*rest[by:], *rest[:by]]
        placed.append(_replicas_of_one(leaders[at], rest, others, replication_factor))
    return placed


def _replicas_of_one(
    leader: BrokerImage,
    rest: Sequence[BrokerImage],
    others: Sequence[BrokerImage],
    count: int,
) -> tuple[int, ...]:
    chosen, racks = [leader], {leader.rack}
    left, later = list(rest), list(others)
    while len(chosen) < count:
        if not left:
            left, later = later, left
        # Prefer racks without a replica. Once each has one, start over with all racks.
        broker = next((b for b in left if b.rack not in racks), None)
        if broker is None:
            racks.clear()
            broker = left[0]
        left.remove(broker)
        chosen.append(broker)
        racks.add(broker.rack)
    return tuple(b.broker_id for b in chosen)


def _ring(brokers: Sequence[BrokerImage]) -> list[BrokerImage]:
    racks: dict[str | None, list[BrokerImage]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack, []).append(broker)
    in_turn = zip_longest(*(racks[r] for r in sorted(racks, key=lambda r: r or "")))
    return [b for row in in_turn for b in row if b is not None]
