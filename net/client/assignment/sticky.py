"""Sticky assignment: as even as possible, and within that limit members keep their partitions
(KIP-54).

There are two algorithms. If all members want the same topics (`Constrained`), even means that two
members differ by one partition at most, so quotas limit how many each keeps, and the rest is
distributed. Otherwise (`General`), each partition first goes to the member with the fewest
partitions among those that want its topic. Then, as long as a member has two more than another that
may take one of its partitions, that partition moves. To stay sticky, a move between two members
that would undo an earlier move of the same topic moves that earlier partition back instead.

Claims of members to a partition are ranked by generation: the later claim wins, and two claims of
the same generation cancel each other.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from pk.core.group.consumer_protocol import NO_GENERATION, Subscription
from pk.core.group.java import HashSetOrder, hash_map_order
from pk.core.group.racks import MemberRacks, PartitionRacks
from pk.core.values import TopicPartition, java_string_hash

Owned = tuple[list[TopicPartition], int]
"""(partitions a member had, generation in which it had them)."""

Assignment = dict[str, list[TopicPartition]]


class _Claims(Struct):
    """The partitions that members claim, after conflicts are resolved."""

    owned: Assignment = field(default_factory=Assignment)
    contested: dict[TopicPartition, None] = field(default_factory=dict[TopicPartition, None])
    """Partitions that two members of the same generation claim."""
    alike: bool = True
    """Whether all members want the same topics."""
    generation_max: int = NO_GENERATION


def _settle(
    topics: Mapping[str, int],
    subscriptions: Mapping[str, Subscription],
    members: Mapping[str, Owned],
) -> _Claims:
    claims = _Claims()
    wanted: frozenset[str] = frozenset()
    owner: dict[TopicPartition, str] = {}
    owned_by: Assignment = {}
    for member, subscription in subscriptions.items():
        if not wanted:
            wanted = frozenset(subscription.topics)
        elif len(subscription.topics) != len(wanted) or not wanted.issuperset(subscription.topics):
            claims.alike = False
        partitions, generation = members[member]
        claims.generation_max = max(claims.generation_max, generation)
        owned = owned_by[member] = []
        for partition in partitions:
            if partition.topic not in topics:
                continue
            other = owner.get(partition)
            if other is None:
                owned.append(partition)
                owner[partition] = member
                continue
            # Java compares with the generation in the other member's subscription, not in its user
            # data.
            other_generation = subscriptions[other].generation
            if generation == other_generation:
                claims.contested[partition] = None
                _discard(owned_by[other], partition)
                owner[partition] = member
            elif generation > other_generation:
                owned.append(partition)
                _discard(owned_by[other], partition)
                owner[partition] = member
    claims.owned = {member: owned_by[member] for member in hash_map_order(owned_by)}
    return claims


def _discard(partitions: list[TopicPartition], partition: TopicPartition) -> None:
    if partition in partitions:
        partitions.remove(partition)


def _without(
    everything: Iterable[TopicPartition], assigned: list[TopicPartition]
) -> list[TopicPartition]:
    """Return `everything` without `assigned`, both in the same order.

    Both are traversed in parallel, as in Java: a claim to a partition that does not exist hides the
    claims after it.
    """
    claims = iter(assigned)
    claim = next(claims, None)
    left: list[TopicPartition] = []
    for partition in everything:
        if partition == claim:
            claim = next(claims, None)
        else:
            left.append(partition)
    return left


class Constrained:
    """The algorithm for members that want the same topics."""

    def __init__(
        self,
        topics: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
        claims: _Claims,
        racks: PartitionRacks,
    ) -> None:
        self._topics = topics
        self._owned = claims.owned
        self._contested = claims.contested
        self._racks = MemberRacks(
            {m: s.rack for m, s in subscriptions.items()}, _all_partitions(topics), racks
        )
        total = sum(topics.values())
        self._min, self._over_wanted = divmod(total, len(subscriptions))
        self._max = self._min + (self._over_wanted > 0)
        self._over = 0
        """The number of members that have more than the lower quota; at most `_over_wanted` may."""
        self._below_quota: list[str] = []
        """Members below the lower quota."""
        self._at_quota: list[str] = []
        """Members at the lower quota that may get one more."""
        self._revoked: dict[TopicPartition, str] = {}
        """Partition → the member that must revoke it, unless it gets it back."""
        self._assignment: Assignment = {m: [] for m in self._owned}
        self.moving: dict[TopicPartition, str] = {}
        """Partition → its new member, for partitions that another member had."""

    @classmethod
    def if_all_subscribe_alike(
        cls,
        topics: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
        members: Mapping[str, Owned],
        racks: PartitionRacks,
    ) -> Constrained | None:
        """Return the algorithm; None if members want different topics."""
        claims = _settle(topics, subscriptions, members)
        return cls(topics, subscriptions, claims, racks) if claims.alike else None

    def assign(self) -> Assignment:
        """Return the assignment of all members."""
        assigned = self._keep_owned()
        assigned.sort()
        left = _without(
            _all_partitions({t: self._topics[t] for t in sorted(self._topics)}), assigned
        )
        self._below_quota.sort()
        self._at_quota.sort()
        left = self._racks.fewest_first(left)
        if self._racks.of_member:
            left = self._assign_by_rack(left)
        self._assign_in_turn(left)
        assert all(len(self._assignment[m]) == self._min for m in self._below_quota)
        return self._assignment

    def _keep_owned(self) -> list[TopicPartition]:
        """Let members keep their partitions up to their quota; returns the partitions assigned this
        way."""
        assigned: list[TopicPartition] = []
        for member, owned in self._owned.items():
            near: list[TopicPartition] = []
            for partition in owned:
                if self._racks.mismatch(member, partition):
                    self._revoked[partition] = member
                else:
                    near.append(partition)
            near.sort(key=lambda p: (p.partition, p.topic))
            for partition in self._contested:
                _discard(near, partition)
            if len(near) < self._min:
                quota = len(near)
                self._below_quota.append(member)
            elif len(near) >= self._max and self._over < self._over_wanted:
                quota = self._max
                self._count_over()
            else:
                quota = self._min
                if self._over < self._over_wanted:
                    self._at_quota.append(member)
            self._assignment[member] += near[:quota]
            assigned += near[:quota]
            self._revoked.update(dict.fromkeys(near[quota:], member))
        return assigned

    def _count_over(self) -> None:
        self._over += 1
        if self._over == self._over_wanted:
            self._at_quota.clear()

    def _assign_by_rack(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions to nearby members that have room; returns the rest."""
        left: list[TopicPartition] = []
        turn = 0
        for partition in partitions:
            index = self._racks.next_near(partition, self._below_quota, turn)
            if index >= 0:
                member = self._below_quota[index]
                count = len(self._assignment[member]) + 1
                if count >= self._min:
                    del self._below_quota[index]
                    if count < self._max and self._over < self._over_wanted:
                        self._at_quota.append(member)
                else:
                    index += 1
                turn = index % len(self._below_quota) if self._below_quota else 0
            else:
                index = self._racks.next_near(partition, self._at_quota, 0)
                if index < 0:
                    left.append(partition)
                    continue
                member = self._at_quota[index]
                if len(self._assignment[member]) + 1 == self._max:
                    del self._at_quota[index]
                    self._count_over()
            self._give(partition, member)
        return left

    def _assign_in_turn(self, partitions: list[TopicPartition]) -> None:
        """Assign the rest: first up to the lower quota in turn, then one more to members that may
        have it."""
        turn = 0
        for partition in partitions:
            if not self._below_quota:
                self._give(partition, self._at_quota.pop(0))
                self._over += 1
                continue
            turn %= len(self._below_quota)
            member = self._below_quota[turn]
            self._give(partition, member)
            if len(self._assignment[member]) == self._min:
                del self._below_quota[turn]
                self._at_quota.append(member)
            else:
                turn += 1

    def _give(self, partition: TopicPartition, member: str) -> None:
        self._assignment[member].append(partition)
        if self._revoked.get(partition, member) != member or partition in self._contested:
            self.moving[partition] = member


class _BySize:
    """Members sorted by number of partitions, then by name."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._sorted: list[tuple[int, str]] = sorted((len(p), m) for m, p in assignment.items())

    def __iter__(self) -> Iterator[str]:
        return (member for _, member in self._sorted)

    def add(self, member: str) -> None:
        insort(self._sorted, (len(self._assignment[member]), member))

    def remove(self, member: str) -> None:
        """Remove a member before its partitions change."""
        del self._sorted[bisect_left(self._sorted, (len(self._assignment[member]), member))]

    @property
    def first(self) -> str:
        return self._sorted[0][1]

    @property
    def last(self) -> str:
        return self._sorted[-1][1]


class _Movements:
    """The partitions that have moved, with their old and new members."""

    def __init__(self) -> None:
        self._pair: dict[TopicPartition, tuple[str, str]] = {}
        self._partitions: dict[tuple[str, str, str], HashSetOrder[TopicPartition]] = {}
        """(topic, from, to) → partitions."""

    def move(self, partition: TopicPartition, source: str, target: str) -> None:
        earlier = self._pair.pop(partition, None)
        if earlier is not None:
            key = (partition.topic, *earlier)
            self._partitions[key].remove(partition)
            if not self._partitions[key]:
                del self._partitions[key]
            source = earlier[0]
            if source == target:
                return
        self._pair[partition] = (source, target)
        moved = self._partitions.setdefault(
            (partition.topic, source, target), HashSetOrder(_partition_hash)
        )
        moved.add(partition)

    def to_be_moved(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return `partition`, or a partition of the same topic that moved the other way before."""
        earlier = self._pair.get(partition)
        if earlier is not None:
            source = earlier[0]
        back = self._partitions.get((partition.topic, target, source))
        return back.first() if back is not None else partition


def _partition_hash(partition: TopicPartition) -> int:
    return 31 * (31 + partition.partition) + java_string_hash(partition.topic)


class General:
    """The algorithm for members that want different topics."""

    def __init__(
        self,
        topics: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
        members: Mapping[str, Owned],
        racks: PartitionRacks,
    ) -> None:
        claims = _settle(topics, subscriptions, members)
        self._topics = topics
        self._racks = MemberRacks(
            {m: s.rack for m, s in subscriptions.items()}, _all_partitions(topics), racks
        )
        self._wants = {m: [t for t in s.topics if t in topics] for m, s in subscriptions.items()}
        self._wants_set = {m: frozenset(wanted) for m, wanted in self._wants.items()}
        self._subscribers: dict[str, list[str]] = {t: [] for t in topics}
        """Topic → the members that want it."""
        for member, wanted in self._wants.items():
            for topic in wanted:
                self._subscribers[topic].append(member)
        self._has = claims.owned
        self._of = {p: m for m, owned in self._has.items() for p in owned}
        """Partition → its member."""
        self._earlier = self._previous_owners(members, claims.generation_max)
        self._movements = _Movements()
        self._all = list(
            _all_partitions(
                {t: topics[t] for t in sorted(topics, key=lambda t: (len(self._subscribers[t]), t))}
            )
        )
        """All partitions; those that the fewest members want come first."""
        self._by_size = _BySize({})
        self._revokes = False

    @staticmethod
    def _previous_owners(
        members: Mapping[str, Owned], generation_max: int
    ) -> dict[TopicPartition, str]:
        """Map partitions to their former members, from claims older than the last generation."""
        claims: dict[TopicPartition, tuple[str, int]] = {}
        for member in hash_map_order(members):
            partitions, generation = members[member]
            if generation < generation_max:
                for partition in partitions:
                    if partition not in claims or generation > claims[partition][1]:
                        claims[partition] = (member, generation)
        return {partition: member for partition, (member, _) in claims.items()}

    def assign(self) -> Assignment:
        """Return the assignment of all members."""
        assigned = self._keep_owned()
        assigned.sort(key=lambda p: (len(self._subscribers[p.topic]), p))
        left = _without(self._all, assigned) if assigned else self._all
        self._by_size = _BySize(self._has)
        self._balance(left)
        return self._has

    def _keep_owned(self) -> list[TopicPartition]:
        assigned: list[TopicPartition] = []
        for member, owned in self._has.items():
            kept = [
                p
                for p in owned
                if p.topic in self._wants_set[member] and not self._racks.mismatch(member, p)
            ]
            if len(kept) < len(owned):
                self._revokes = True
            self._has[member] = kept
            assigned += kept
        return assigned

    def _balance(self, left: list[TopicPartition]) -> None:
        from_nothing = not self._has[self._by_size.last]
        rest = left
        if self._racks.of_member:
            rest = [p for p in left if not self._give(p, near=True)]
        for partition in rest:
            self._give(partition, near=False)

        # Members without a choice do not take part in the following steps.
        movable = [p for p in self._all if len(self._subscribers[p.topic]) >= 2]
        left = [p for p in left if len(self._subscribers[p.topic]) >= 2]
        fixed: Assignment = {}
        for member in self._wants:
            if not self._can_change(member):
                self._by_size.remove(member)
                fixed[member] = self._has.pop(member)

        before = {m: list(p) for m, p in self._has.items()}
        if not self._revokes:
            self._reassign_until_stable(left)
        if (
            self._reassign_until_stable(movable)
            and not from_nothing
            and _imbalance(self._has) >= _imbalance(before)
        ):
            self._has.clear()
            self._has.update(before)
        self._has.update(fixed)

    def _give(self, partition: TopicPartition, *, near: bool) -> bool:
        """Give a partition to the member with the fewest, among those that may have it."""
        for member in self._by_size:
            if partition.topic in self._wants_set[member] and not (
                near and self._racks.mismatch(member, partition)
            ):
                self._by_size.remove(member)
                self._has[member].append(partition)
                self._of[partition] = member
                self._by_size.add(member)
                return True
        return False

    def _partitions_max(self, member: str) -> int:
        """Return the most partitions that the member could have."""
        return sum(self._topics[t] for t in self._wants[member])

    def _can_change(self, member: str) -> bool:
        has = self._has[member]
        return len(has) < self._partitions_max(member) or any(
            len(self._subscribers[p.topic]) >= 2 for p in has
        )

    def _is_balanced(self) -> bool:
        """Return whether no member has two more partitions than another that may take one of
        them."""
        has = self._has
        if len(has[self._by_size.first]) >= len(has[self._by_size.last]) - 1:
            return True
        owner = {p: m for m, partitions in has.items() for p in partitions}
        for member in self._by_size:
            count = len(has[member])
            if count == self._partitions_max(member):
                continue
            for topic in self._wants[member]:
                for index in range(self._topics[topic]):
                    other = owner[TopicPartition(topic, index)]
                    if other != member and count + 1 < len(has[other]):
                        return False
        return True

    def _reassign_until_stable(self, partitions: list[TopicPartition]) -> bool:
        """Move partitions from members with more to members with fewer. Returns whether any
        moved."""
        moved_any = False
        moved = True
        while moved:
            moved = False
            for partition in partitions:
                if self._is_balanced():
                    break
                moved |= self._move_if_better(partition)
            moved_any |= moved
        return moved_any

    def _move_if_better(self, partition: TopicPartition) -> bool:
        has = self._has
        member = self._of[partition]
        limit = len(has[member]) - 1
        earlier = self._earlier.get(partition)
        if earlier is not None and limit > len(has.get(earlier, has[member])):
            self._move(partition, earlier)
            return True
        # Java first checks the members near the partition, but moves it to the member with the
        # fewest, near or not.
        if any(
            limit > len(has[other]) for other in self._subscribers[partition.topic] if other in has
        ):
            target = next(m for m in self._by_size if partition.topic in self._wants_set[m])
            self._move(partition, target)
            return True
        return False

    def _move(self, partition: TopicPartition, target: str) -> None:
        partition = self._movements.to_be_moved(partition, self._of[partition], target)
        source = self._of[partition]
        self._by_size.remove(source)
        if target != source:
            self._by_size.remove(target)
        self._movements.move(partition, source, target)
        self._has[source].remove(partition)
        self._has[target].append(partition)
        self._of[partition] = target
        self._by_size.add(target)
        if target != source:
            self._by_size.add(source)


def _imbalance(assignment: Assignment) -> int:
    """Return the sum of the size differences of all pairs of members."""
    sizes = sorted(len(p) for p in assignment.values())
    return sum(size * (2 * i - len(sizes) + 1) for i, size in enumerate(sizes))


def _all_partitions(topics: Mapping[str, int]) -> Iterator[TopicPartition]:
    return (TopicPartition(topic, p) for topic, count in topics.items() for p in range(count))
