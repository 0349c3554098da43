"""The input of a server-side assignor: a frozen view of a group that another thread may read.

Members come in the order of Java's `HashMap`, because Kafka's assignors break ties by it and a
group may move between coordinators of both kinds.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct, field

from pk.core.group.java import hash_map_order
from pk.core.values import TopicIdPartition, Uuid

Assignment = Mapping[Uuid, frozenset[int]]
"""Topic id → partitions. Immutable."""

EMPTY_ASSIGNMENT: Final[Assignment] = {}

_HALVES: Final = struct.Struct(">qq")


class MemberSpec(Struct, frozen=True):
    """One member, as an assignor sees it."""

    topics: frozenset[Uuid]
    """The topics it reads, those that exist."""
    target: Assignment = field(default_factory=dict[Uuid, frozenset[int]])
    """Its partitions in the last target assignment."""
    instance_id: str | None = None
    rack: str | None = None


class GroupSpec(Struct, frozen=True):
    """A group and the topics it reads, at one moment."""

    members: Mapping[str, MemberSpec]
    partitions: Mapping[Uuid, int]
    """Topic id → how many partitions it has."""
    racks: Mapping[TopicIdPartition, frozenset[str]] = field(
        default_factory=dict[TopicIdPartition, frozenset[str]]
    )
    """Partition → the racks of its replicas; empty if no member has a rack."""

    @property
    def alike(self) -> bool:
        """Whether all members read the same topics."""
        topics = [member.topics for member in self.members.values()]
        return all(t == topics[0] for t in topics)

    @property
    def work(self) -> int:
        """A measure of the time that an assignor needs: the number of members, partitions and
        assignments."""
        assigned = sum(len(ps) for m in self.members.values() for ps in m.target.values())
        return len(self.members) + sum(self.partitions.values()) + assigned


class ServerAssignor(Protocol):
    """One way to assign."""

    name: str

    def assign(self, group: GroupSpec) -> dict[str, Assignment]:
        """Every member with its partitions; each partition of a topic that a member reads is
        assigned to one member."""
        ...


def member_order(members: Mapping[str, MemberSpec]) -> list[str]:
    """The members' ids as Java's `HashMap` orders them."""
    return hash_map_order(members)


def topic_order(topics: Sequence[Uuid] | frozenset[Uuid]) -> list[Uuid]:
    """Topic ids as `new HashSet<>(topics)` of Java orders them."""
    return hash_map_order(sorted(topics), uuid_hash, capacity=copied_capacity(len(topics)))


def uuid_hash(value: Uuid) -> int:
    """`Uuid.hashCode` of Java's clients."""
    high, low = _HALVES.unpack(value)
    mixed = (high ^ low) & 0xFFFFFFFFFFFFFFFF
    return ((mixed >> 32) ^ mixed) & 0xFFFFFFFF


def uuid_sort_key(value: Uuid) -> tuple[int, int]:
    """A key by which ids sort as Java's do: by signed halves."""
    return _HALVES.unpack(value)


def copied_capacity(size: int) -> int:
    """The table's size of a Java `HashSet` that was made as the copy of `size` elements."""
    wanted = max(int(size / 0.75) + 1, 16)
    return 1 << (wanted - 1).bit_length()
