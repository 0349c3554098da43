"""Racks for assignors (KIP-881): a member prefers partitions with a replica in its rack."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from pk.core.values import TopicPartition

PartitionRacks = Mapping[TopicPartition, frozenset[str]]
"""The racks of the replicas of each partition."""


def rack_aware(wanted: AbstractSet[str], partitions: Collection[frozenset[str]]) -> bool:
    """Whether racks affect the assignment: a member's rack has a replica, and not every partition
    has one in every rack."""
    everywhere = frozenset[str]().union(*partitions)
    return not wanted.isdisjoint(everywhere) and any(racks != everywhere for racks in partitions)


class MemberRacks:
    """The racks of members and partitions. Empty if racks do not affect the assignment."""

    def __init__(
        self,
        members: Mapping[str, str | None],
        partitions: Iterable[TopicPartition],
        racks: PartitionRacks,
    ) -> None:
        rack_of = {m: rack for m, rack in members.items() if rack}
        of_partition: dict[TopicPartition, frozenset[str]] = {}
        if rack_of:
            of_partition = {p: racks.get(p, frozenset()) for p in partitions}
        in_rack: dict[str, int] = {}
        for rack in rack_of.values():
            in_rack[rack] = in_rack.get(rack, 0) + 1
        self._near = {
            p: sum(in_rack.get(rack, 0) for rack in has) for p, has in of_partition.items()
        }
        """The number of members in the racks of each partition."""
        matter = rack_aware(frozenset(in_rack), of_partition.values())
        self.of_member: dict[str, str] = rack_of if matter else {}
        self.of_partition: dict[TopicPartition, frozenset[str]] = of_partition if matter else {}

    def mismatch(self, member: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack in which the partition has no replica."""
        rack = self.of_member.get(member)
        return rack is not None and rack not in self.of_partition.get(partition, frozenset())

    def fewest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Sort partitions by the number of members near them, the lowest first."""
        return sorted(partitions, key=lambda p: self._near.get(p, 0)) if self._near else partitions

    def next_near(self, partition: TopicPartition, members: Sequence[str], start: int) -> int:
        """Return the index of the first of `members` near `partition`, searching circularly from
        `start`, or -1."""
        has = self.of_partition.get(partition)
        if has:
            for i in range(len(members)):
                index = (start + i) % len(members)
                if self.of_member.get(members[index]) in has:
                    return index
        return -1
