"""The assignors that a group's leader may run, with the same results as Java's.

- `range`: topic by topic, consecutive partitions to members in order; topics with the same members
  and partition count go to the same members, even if racks are considered (KIP-881).
- `roundrobin`: all partitions of all topics, distributed one by one.
- `sticky`: as even as possible, moving as little as possible (KIP-54).
- `cooperative-sticky`: the same; but a partition that has to move is revoked in one rebalance and
  assigned in the next, while the others stay in use (KIP-429).

The assignors are pure functions, without a broker or a client. Members of a group may run Java, and
any of them may lead, so if Java's result depends on the order of its hash maps, so does ours
(core/group/java.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, Protocol

from pk.core.group.consumer_protocol import (
    NO_GENERATION,
    Subscription,
    decode_cooperative_user_data,
    decode_sticky_user_data,
    encode_cooperative_user_data,
    encode_sticky_user_data,
)
from pk.core.group.java import hash_map_order, java_order
from pk.core.group.racks import PartitionRacks, rack_aware
from pk.core.values import TopicPartition
from pk.net.client.assignment.sticky import Constrained, General, Owned

Assignment = dict[str, list[TopicPartition]]
"""Member id → its partitions."""

Subscriptions = Mapping[str, Subscription]
"""Member id → its subscription, in the order of members in the JoinGroup response."""


class RebalanceProtocol(IntEnum):
    """How a member gives up partitions in a rebalance (KIP-429)."""

    EAGER = 0
    """A member revokes all of its partitions before it joins again."""
    COOPERATIVE = 1
    """A member keeps its partitions until the group revokes them."""


class Assignor(Protocol):
    """An assignment strategy."""

    name: str
    """The name that members vote for."""
    protocols: tuple[RebalanceProtocol, ...]
    """The supported protocols, best first."""

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return the user data for a member's subscription. `owned` is its last assignment, of
        generation `generation` (-1: none)."""
        ...

    def assign(
        self,
        partitions: Mapping[str, int],
        subscriptions: Subscriptions,
        racks: PartitionRacks | None = None,
    ) -> Assignment:
        """Assign partitions to all members; `partitions` maps to the partition count of each
        existing topic.

        `racks` has the racks of each partition's replicas; without it, racks are ignored.
        """
        ...


def _member_order(member: tuple[str, Subscription]) -> tuple[bool, bytes]:
    """Sort members: static members first, by instance id, so that their order survives new member
    ids (KIP-345)."""
    member_id, subscription = member
    if subscription.instance_id is not None:
        return False, java_order(subscription.instance_id)
    return True, java_order(member_id)


def _existing(partitions: Mapping[str, int], subscriptions: Subscriptions) -> dict[str, int]:
    """Return the existing topics that some member wants, in Java's order."""
    wanted: dict[str, None] = {}
    for member_id in hash_map_order(subscriptions):
        wanted.update(dict.fromkeys(subscriptions[member_id].topics))
    names = [t for t in hash_map_order(wanted) if partitions.get(t, 0) > 0]
    return {t: partitions[t] for t in hash_map_order(names)}


class _RangeTopic:
    """A topic whose partitions are being assigned."""

    def __init__(
        self,
        topic: str,
        count: int,
        members: Sequence[str],
        member_racks: Mapping[str, str],
        racks: PartitionRacks,
    ) -> None:
        self.topic = topic
        self.unassigned = dict.fromkeys(range(count))
        self.members = {m: member_racks.get(m) for m in members}
        """Member → its rack, in the order of assignment."""
        self.given = dict.fromkeys(members, 0)
        self.each, self.extra = divmod(count, len(members)) if members else (0, 0)
        wanted = {rack for rack in self.members.values() if rack is not None}
        self.racks: list[frozenset[str]] = []
        if wanted:
            self.racks = [racks.get(TopicPartition(topic, p), frozenset()) for p in range(count)]
        self.rack_aware = rack_aware(wanted, self.racks)

    def rack_matches(self, member: str, partition: int) -> bool:
        rack = self.members[member]
        return rack is None or (bool(self.racks) and rack in self.racks[partition])

    def room(self, member: str) -> int:
        """Return how many more partitions `member` may get."""
        return max(0, self.each + (self.extra > 0) - self.given[member])

    def give(self, member: str, partitions: Sequence[int], assignment: Assignment) -> None:
        assignment[member] += [TopicPartition(self.topic, p) for p in partitions]
        self.given[member] += len(partitions)
        if self.given[member] > self.each:
            self.extra -= 1
        for partition in partitions:
            del self.unassigned[partition]


class RangeAssignor:
    """The assignor `range`."""

    name = "range"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return no data."""
        return None

    def assign(
        self,
        partitions: Mapping[str, int],
        subscriptions: Subscriptions,
        racks: PartitionRacks | None = None,
    ) -> Assignment:
        """See `Assignor`."""
        assignment: Assignment = {member: [] for member in subscriptions}
        in_order = sorted(subscriptions.items(), key=_member_order)
        members_of: dict[str, list[str]] = {}
        for member, subscription in in_order:
            for topic in dict.fromkeys(subscription.topics):
                members_of.setdefault(topic, []).append(member)
        member_racks = {m: s.rack for m, s in subscriptions.items() if s.rack}
        topics = [
            _RangeTopic(topic, count, members_of[topic], member_racks, racks or {})
            for topic, count in _existing(partitions, subscriptions).items()
        ]
        aware = any(t.rack_aware for t in topics)
        if aware:
            self._match_racks(topics, assignment)
        for topic in topics:
            self._assign_range(topic, lambda member, partition: True, assignment)
        if aware:
            for given in assignment.values():
                given.sort()
        return assignment

    def _assign_range(
        self, topic: _RangeTopic, may_have: Callable[[str, int], bool], assignment: Assignment
    ) -> None:
        for member in topic.members:
            if not topic.unassigned:
                return
            fitting = [p for p in topic.unassigned if may_have(member, p)][: topic.room(member)]
            if fitting:
                topic.give(member, fitting, assignment)

    def _match_racks(self, topics: Iterable[_RangeTopic], assignment: Assignment) -> None:
        """Assign partitions that match racks first; topics of the same members and size together,
        so that they stay co-partitioned."""
        alike: dict[tuple[frozenset[tuple[str, str | None]], int], list[_RangeTopic]] = {}
        for topic in topics:
            alike.setdefault((frozenset(topic.members.items()), len(topic.racks)), []).append(topic)
        for (_, count), group in alike.items():
            if len(group) > 1:
                self._match_together(count, group, assignment)
            elif group[0].rack_aware:
                self._assign_range(group[0], group[0].rack_matches, assignment)

    def _match_together(
        self, count: int, topics: Sequence[_RangeTopic], assignment: Assignment
    ) -> None:
        remaining = dict.fromkeys(topics[0].members)
        for partition in range(count):
            member = next(
                (
                    m
                    for m in remaining
                    if all(t.rack_matches(m, partition) and t.room(m) > 0 for t in topics)
                ),
                None,
            )
            if member is None:
                continue
            for topic in topics:
                topic.give(member, [partition], assignment)
            if not any(t.room(member) > 0 for t in topics):
                del remaining[member]
                if not remaining:
                    return


class RoundRobinAssignor:
    """The assignor `roundrobin`."""

    name = "roundrobin"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return no data."""
        return None

    def assign(
        self,
        partitions: Mapping[str, int],
        subscriptions: Subscriptions,
        racks: PartitionRacks | None = None,
    ) -> Assignment:
        """See `Assignor`. Ignores racks."""
        assignment: Assignment = {member: [] for member in subscriptions}
        ring = [m for m, _ in sorted(subscriptions.items(), key=_member_order)]
        wants = {m: frozenset(s.topics) for m, s in subscriptions.items()}
        turn = 0
        for topic in sorted(_existing(partitions, subscriptions)):
            for partition in range(partitions[topic]):
                while topic not in wants[ring[turn]]:
                    turn = (turn + 1) % len(ring)
                assignment[ring[turn]].append(TopicPartition(topic, partition))
                turn = (turn + 1) % len(ring)
        return assignment


class StickyAssignor:
    """The assignor `sticky`."""

    name = "sticky"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return the owned partitions, since an eager member has revoked them before it joins."""
        return None if generation == NO_GENERATION else encode_sticky_user_data(owned, generation)

    def assign(
        self,
        partitions: Mapping[str, int],
        subscriptions: Subscriptions,
        racks: PartitionRacks | None = None,
    ) -> Assignment:
        """See `Assignor`."""
        members: dict[str, Owned] = {
            m: decode_sticky_user_data(s.user_data) for m, s in subscriptions.items()
        }
        return _assign_sticky(partitions, subscriptions, members, racks)[0]


class CooperativeStickyAssignor:
    """The assignor `cooperative-sticky`."""

    name = "cooperative-sticky"
    protocols: tuple[RebalanceProtocol, ...] = (
        RebalanceProtocol.COOPERATIVE,
        RebalanceProtocol.EAGER,
    )

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return the generation, for leaders that do not read it in the subscription."""
        return encode_cooperative_user_data(generation)

    def assign(
        self,
        partitions: Mapping[str, int],
        subscriptions: Subscriptions,
        racks: PartitionRacks | None = None,
    ) -> Assignment:
        """See `Assignor`. Partitions that another member still holds are not assigned until the
        next rebalance."""
        members: dict[str, Owned] = {
            m: (
                list(s.owned),
                s.generation
                if s.generation != NO_GENERATION
                else decode_cooperative_user_data(s.user_data),
            )
            for m, s in subscriptions.items()
        }
        assignment, moving = _assign_sticky(partitions, subscriptions, members, racks)
        if moving is None:
            moving = _moving(subscriptions, assignment)
        for partition, member in moving.items():
            if partition in assignment[member]:
                assignment[member].remove(partition)
        return assignment


def _assign_sticky(
    partitions: Mapping[str, int],
    subscriptions: Subscriptions,
    members: Mapping[str, Owned],
    racks: PartitionRacks | None,
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """Return (the assignment, partition → its new member for partitions that change hands, or None
    if not known)."""
    if not subscriptions:
        return {}, {}
    existing = _existing(partitions, subscriptions)
    ordered = {m: subscriptions[m] for m in hash_map_order(subscriptions)}
    constrained = Constrained.if_all_subscribe_alike(existing, ordered, members, racks or {})
    if constrained is not None:
        return constrained.assign(), constrained.moving
    return General(existing, ordered, members, racks or {}).assign(), None


def _moving(subscriptions: Subscriptions, assignment: Assignment) -> dict[TopicPartition, str]:
    """Return the partitions that one member gets and another member has."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member, given in assignment.items():
        owned = frozenset(subscriptions[member].owned)
        added.update({p: member for p in given if p not in owned})
        revoked.update(owned - frozenset(given))
    return {p: member for p, member in added.items() if p in revoked}


ASSIGNORS: Final[Mapping[str, Assignor]] = {
    assignor.name: assignor
    for assignor in (
        RangeAssignor(),
        RoundRobinAssignor(),
        StickyAssignor(),
        CooperativeStickyAssignor(),
    )
}
"""All assignors by name."""
