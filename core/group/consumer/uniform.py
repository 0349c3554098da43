"""The server-side assignor `uniform`: the numbers of partitions of members differ by at most one,
and as few partitions as possible move.

If all members are subscribed to the same topics, each has a quota: a member above its quota loses
partitions, and a member below it gets some. Otherwise, unassigned partitions go to the members with
the fewest partitions. Then, topic by topic, partitions move from the most to the least loaded
members. Results and ties are those of Kafka 4.3.1.

If racks matter (KIP-881), a member preferably keeps and gets partitions with a replica in its rack,
but balance and stickiness have priority. Kafka 4.3.1 itself ignores racks here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pk.core.group.assignor import (
    Assignment,
    GroupSpec,
    copied_capacity,
    member_order,
    topic_order,
    uuid_hash,
    uuid_sort_key,
)
from pk.core.group.java import hash_map_order
from pk.core.group.racks import rack_aware
from pk.core.values import TopicIdPartition, Uuid

BALANCING_ROUNDS_MAX: Final = 16
"""The maximum number of balancing rounds over all topics, as in Kafka. The result after them is
final."""

_NO_MEMBER: Final = -1


class UniformAssignor:
    """The assignor `uniform`."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> dict[str, Assignment]:
        """See `ServerAssignor`."""
        if not group.members or not any(m.topics for m in group.members.values()):
            return {member_id: {} for member_id in group.members}
        near = _nearness(group)
        return (
            _Homogeneous(group, near).assign()
            if group.is_homogeneous
            else _Heterogeneous(group, near).assign()
        )


Near = Callable[[str, TopicIdPartition], bool]
"""Whether a member has a rack in which a partition has a replica."""


def _nearness(group: GroupSpec) -> Near | None:
    """Return a test for nearness, or None if racks do not matter."""
    rack_of = {m: spec.rack for m, spec in group.members.items() if spec.rack}
    racks = group.racks
    if not rack_of or not rack_aware(frozenset(rack_of.values()), list(racks.values())):
        return None
    nothing: frozenset[str] = frozenset()
    return lambda member_id, partition: rack_of.get(member_id) in racks.get(partition, nothing)


class _Homogeneous:
    """An assignment for members that are subscribed to the same topics."""

    def __init__(self, group: GroupSpec, near: Near | None) -> None:
        self._group = group
        self._near = near
        self._order = member_order(group.members)
        self._topics = group.members[self._order[0]].topics
        self._unassigned: list[TopicIdPartition] = []
        self._unfilled: list[tuple[str, int]] = []
        self._assigned: dict[str, dict[Uuid, set[int]]] = {}

    def assign(self) -> dict[str, Assignment]:
        members = self._group.members
        taken: dict[Uuid, set[int]] = {}
        for member in members.values():
            for topic, partitions in member.target.items():
                taken.setdefault(topic, set()).update(partitions)
        total = 0
        for topic in topic_order(self._topics):
            count = self._group.partitions[topic]
            had = taken.get(topic, set())
            self._unassigned += [TopicIdPartition(topic, p) for p in range(count) if p not in had]
            total += count
        self._keep_within_quota(*divmod(total, len(members)))
        self._fill()
        return {m: {t: frozenset(ps) for t, ps in g.items()} for m, g in self._assigned.items()}

    def _keep_within_quota(self, quota_min: int, extras: int) -> None:
        """Let each member keep its partitions up to its quota. `extras` members may have one
        more."""
        for index, member_id in enumerate(self._order):
            quota = quota_min + (extras > 0)
            has_extra = extras > 0
            kept: dict[Uuid, set[int]] = {}
            target = self._group.members[member_id].target
            for topic in hash_map_order(target, uuid_hash):
                partitions = target[topic]
                if topic not in self._topics:
                    continue
                if len(partitions) <= quota:
                    quota -= len(partitions)
                    kept[topic] = set(partitions)
                    continue
                ordered = self._keeping_order(member_id, topic, partitions)
                if quota:
                    kept[topic] = set(ordered[:quota])
                self._unassigned += [TopicIdPartition(topic, p) for p in ordered[quota:]]
                quota = 0
            if quota and has_extra and len(self._order) - index > extras:
                # Leave the extra partition to a later member, which may have one already.
                quota -= 1
                has_extra = False
            if quota:
                self._unfilled.append((member_id, quota))
            extras -= has_extra
            self._assigned[member_id] = kept

    def _keeping_order(self, member_id: str, topic: Uuid, partitions: frozenset[int]) -> list[int]:
        """Return a member's partitions of a topic, beginning with those that it keeps."""
        ordered = hash_map_order(
            sorted(partitions), lambda p: p, capacity=copied_capacity(len(partitions))
        )
        near = self._near
        if near is not None:
            ordered.sort(key=lambda p: not near(member_id, TopicIdPartition(topic, p)))
        return ordered

    def _fill(self) -> None:
        unassigned = self._unassigned
        unfilled = self._unfilled
        near = self._near
        if near is not None:
            remaining = dict.fromkeys(unassigned)
            still: list[tuple[str, int]] = []
            for member_id, quota in unfilled:
                fitting = [p for p in remaining if near(member_id, p)][:quota]
                for partition in fitting:
                    self._give(member_id, partition)
                    del remaining[partition]
                still.append((member_id, quota - len(fitting)))
            unassigned, unfilled = list(remaining), still
        position = 0
        for member_id, quota in unfilled:
            for partition in unassigned[position : position + quota]:
                self._give(member_id, partition)
            position += quota
        assert position >= len(unassigned), "partitions were left over"

    def _give(self, member_id: str, partition: TopicIdPartition) -> None:
        self._assigned[member_id].setdefault(partition.topic_id, set()).add(partition.partition)


class _Heterogeneous:
    """An assignment for members that are subscribed to different topics. Members are identified by
    their index in Java's order."""

    def __init__(self, group: GroupSpec, near: Near | None) -> None:
        self._group = group
        self._near = near
        self._members = member_order(group.members)
        self._load = [0] * len(self._members)
        self._readers: dict[Uuid, list[int]] = {}
        for index, member_id in enumerate(self._members):
            for topic in group.members[member_id].topics:
                self._readers.setdefault(topic, []).append(index)
        self._owner = {t: [_NO_MEMBER] * group.partitions[t] for t in self._readers}
        """The member that has each partition, by topic and partition."""

    def assign(self) -> dict[str, Assignment]:
        self._keep()
        self._assign_unassigned()
        self._balance([t for t, readers in self._readers.items() if len(readers) > 1])
        given: list[dict[Uuid, set[int]]] = [{} for _ in self._members]
        for topic, owners in self._owner.items():
            for partition, index in enumerate(owners):
                given[index].setdefault(topic, set()).add(partition)
        return {
            member_id: {t: frozenset(ps) for t, ps in given[index].items()}
            for index, member_id in enumerate(self._members)
        }

    def _keep(self) -> None:
        for index, member_id in enumerate(self._members):
            member = self._group.members[member_id]
            for topic, partitions in member.target.items():
                if topic in member.topics:
                    self._load[index] += len(partitions)
                    owners = self._owner[topic]
                    for partition in partitions:
                        owners[partition] = index

    def _sorted(self, topics: Sequence[Uuid]) -> list[Uuid]:
        """Sort topics by their number of partitions per subscribed member, the highest first."""

        def key(topic: Uuid) -> tuple[float, int, tuple[int, int]]:
            readers = len(self._readers[topic])
            return -self._group.partitions[topic] / readers, readers, uuid_sort_key(topic)

        return sorted(topics, key=key)

    def _assign_unassigned(self) -> None:
        """Assign the unassigned partitions to the members with the fewest partitions."""
        free = {
            topic: [p for p, owner in enumerate(owners) if owner == _NO_MEMBER]
            for topic, owners in self._owner.items()
        }
        for topic in self._sorted([t for t, partitions in free.items() if partitions]):
            scale = _Scale(self._load, self._readers[topic])
            for partition in free[topic]:
                index = scale.least_loaded(self._near_members(topic, partition))
                self._owner[topic][partition] = index
                self._load[index] += 1

    def _near_members(self, topic: Uuid, partition: int) -> Callable[[int], bool] | None:
        near = self._near
        if near is None:
            return None
        where = TopicIdPartition(topic, partition)
        return lambda index: near(self._members[index], where)

    def _balance(self, topics: list[Uuid]) -> None:
        ordered = self._sorted(topics)
        last_changed = _NO_MEMBER
        for _ in range(BALANCING_ROUNDS_MAX):
            for number, topic in enumerate(ordered):
                if number == last_changed:
                    return  # A whole round has changed nothing.
                if self._balance_topic(topic) or last_changed == _NO_MEMBER:
                    last_changed = number

    def _balance_topic(self, topic: Uuid) -> bool:
        """Move partitions of `topic` from its most to its least loaded members. Returns whether any
        moved."""
        scale = _Scale(self._load, self._readers[topic])
        if scale.spread <= 1:
            return False
        owners = self._owner[topic]
        held: dict[int, list[int]] = {}
        for partition, index in enumerate(owners):
            held.setdefault(index, []).append(partition)
        moved = False
        while not scale.balanced:
            most = scale.most_loaded()
            while most != _NO_MEMBER and not held.get(most):
                scale.exclude_most_loaded()
                most = scale.most_loaded()
            if most == _NO_MEMBER:
                break
            partition = held[most].pop()
            least = scale.least_loaded(None)
            if scale.balanced:
                break
            owners[partition] = least
            self._load[most] -= 1
            self._load[least] += 1
            moved = True
        return moved


class _Scale:
    """The members of one topic by load, from which the least and the most loaded are taken in turn.

    The least loaded members are a range at the front. The range grows when each of its members has
    been given one more partition. The most loaded members are a range at the back, which grows when
    each of its members has given one up.
    """

    def __init__(self, load: list[int], readers: Sequence[int]) -> None:
        self._load = load
        self._readers = sorted(readers, key=lambda index: (load[index], index))
        count = len(self._readers)
        self._least_end = 0
        self._least_load = load[self._readers[0]] - 1
        self._next_least = 0
        self._most_start = count
        self._most_end = count
        self._most_load = load[self._readers[-1]] + 1
        self._next_most = count - 1
        self.spread = load[self._readers[-1]] - load[self._readers[0]]
        """The initial difference in load between the most and the least loaded member."""

    @property
    def balanced(self) -> bool:
        """Whether the load of the most loaded range is at most one above that of the least loaded
        range."""
        return self._most_load - self._least_load <= 1

    def least_loaded(self, wanting: Callable[[int], bool] | None) -> int:
        """Return the member that gets the next partition. Among equals, one for which `wanting`
        holds comes first."""
        readers = self._readers
        if self._next_least >= self._least_end:
            self._least_load += 1
            while (
                self._least_end < len(readers)
                and self._load[readers[self._least_end]] == self._least_load
            ):
                self._least_end += 1
            self._next_least = 0
        position = self._next_least
        if wanting is not None:
            for other in range(position, self._least_end):
                if wanting(readers[other]):
                    readers[position], readers[other] = readers[other], readers[position]
                    break
        self._next_least += 1
        return readers[position]

    def most_loaded(self) -> int:
        """Return the member that gives up the next partition, or -1 if none is left."""
        readers = self._readers
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_load = self._load[readers[self._most_start - 1]]
            else:
                self._most_load -= 1
            while (
                self._most_start > 0
                and self._load[readers[self._most_start - 1]] == self._most_load
            ):
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return _NO_MEMBER
        self._next_most -= 1
        return readers[self._next_most + 1]

    def exclude_most_loaded(self) -> None:
        """Exclude the member that `most_loaded` has just returned, because it has no partition to
        give up."""
        readers = self._readers
        self._most_end -= 1
        named = self._next_most + 1
        readers[named], readers[self._most_end] = readers[self._most_end], readers[named]
