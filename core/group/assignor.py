"""The input of a server-side assignor: a frozen view of a group that another thread may read.

Members are in the order of Java's `HashMap`, because Kafka's assignors break ties by it, and a
group may move between pk's coordinators and Kafka's.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct, field

from pk.core.group.java import hash_map_order
from pk.core.values import TopicIdPartition, Uuid

Assignment = Mapping[Uuid, frozenset[int]]
"""The partitions of each topic, by topic id. Immutable."""

EMPTY_ASSIGNMENT: Final[Assignment] = {}

_HALVES: Final = struct.Struct(">qq")


class MemberSpec(Struct, frozen=True):
    """A member as seen by an assignor."""

    topics: frozenset[Uuid]
    """The existing topics that the member is subscribed to."""
    target: Assignment = field(default_factory=dict[Uuid, frozenset[int]])
    """The member's partitions in the last target assignment."""
    instance_id: str | None = None
    rack: str | None = None


class GroupSpec(Struct, frozen=True):
    """A group and its topics at one moment."""

    members: Mapping[str, MemberSpec]
    partitions: Mapping[Uuid, int]
    """The number of partitions of each topic, by topic id."""
    racks: Mapping[TopicIdPartition, frozenset[str]] = field(
        default_factory=dict[TopicIdPartition, frozenset[str]]
    )
    """The racks of the replicas of each partition. Empty if no member has a rack."""

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members are subscribed to the same topics."""
        topics = [member.topics for member in self.members.values()]
        return all(t == topics[0] for t in topics)

    @property
    def work(self) -> int:
        """A measure of the time that an assignor needs: the number of members, partitions and
        assignments."""
        assigned = sum(len(ps) for m in self.members.values() for ps in m.target.values())
        return len(self.members) + sum(self.partitions.values()) + assigned


class ServerAssignor(Protocol):
    """A server-side assignor."""

    name: str

    def assign(self, group: GroupSpec) -> dict[str, Assignment]:
        """Assign each partition of a topic that a member is subscribed to to exactly one member.
        The result contains every member."""
        ...


def member_order(members: Mapping[str, MemberSpec]) -> list[str]:
    """Return the members' ids in the order of Java's `HashMap`."""
    return hash_map_order(members)


def topic_order(topics: Sequence[Uuid] | frozenset[Uuid]) -> list[Uuid]:
    """Return topic ids in the order of Java's `new HashSet<>(topics)`."""
    return hash_map_order(sorted(topics), uuid_hash, capacity=copied_capacity(len(topics)))


def uuid_hash(value: Uuid) -> int:
    """Return `Uuid.hashCode` of Kafka's Java client."""
    high, low = _HALVES.unpack(value)
    mixed = (high ^ low) & 0xFFFFFFFFFFFFFFFF
    return ((mixed >> 32) ^ mixed) & 0xFFFFFFFF


def uuid_sort_key(value: Uuid) -> tuple[int, int]:
    """Return a key that sorts ids as Java does, by signed halves."""
    return _HALVES.unpack(value)


def copied_capacity(size: int) -> int:
    """Return the table size of a Java `HashSet` that was created as a copy of `size` elements."""
    wanted = max(int(size / 0.75) + 1, 16)
    return 1 << (wanted - 1).bit_length()
