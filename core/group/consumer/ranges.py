"""The server-side assignor `range`: each member gets a range of a topic's partitions, so that
topics with the same number of partitions are divided in the same way and can be joined.

Members of a topic are sorted, static members first. If there is a remainder, the first ones get one
partition more. Results are those of Kafka 4.3.1.

If racks matter (KIP-881), each member still gets the same number of partitions, but preferably
those with a replica in its rack. Topics with the same members and number of partitions are divided
together, so that they can still be joined. Kafka 4.3.1 itself ignores racks here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pk.core.group.assignor import Assignment, GroupSpec
from pk.core.group.java import java_order
from pk.core.group.racks import rack_aware
from pk.core.values import TopicIdPartition, Uuid


class ServerRangeAssignor:
    """The assignor `range`."""

    name = "range"

    def assign(self, group: GroupSpec) -> dict[str, Assignment]:
        """See `ServerAssignor`."""
        order = sorted(group.members, key=lambda member_id: _order(group, member_id))
        readers: dict[Uuid, list[str]] = {}
        for member_id in order:
            for topic in group.members[member_id].topics:
                readers.setdefault(topic, []).append(member_id)
        assigned: dict[str, dict[Uuid, frozenset[int]]] = {member_id: {} for member_id in order}
        wanted = frozenset(m.rack for m in group.members.values() if m.rack)
        if wanted and rack_aware(wanted, list(group.racks.values())):
            _split_near(group, readers, assigned)
        else:
            for topic, members in readers.items():
                _split(topic, group.partitions[topic], members, assigned)
        return dict(assigned.items())


PartialAssignment = Mapping[str, dict[Uuid, frozenset[int]]]


def _order(group: GroupSpec, member_id: str) -> tuple[bool, bytes]:
    """Sort static members first, by instance id, because their order must survive new member
    ids."""
    instance_id = group.members[member_id].instance_id
    return instance_id is None, java_order(member_id if instance_id is None else instance_id)


def _split(topic: Uuid, count: int, members: Sequence[str], assigned: PartialAssignment) -> None:
    each, extras = divmod(count, len(members))
    start = 0
    for index, member_id in enumerate(members):
        end = start + each + (index < extras)
        if end == start:
            return
        assigned[member_id][topic] = frozenset(range(start, end))
        start = end


def _split_near(
    group: GroupSpec, readers: Mapping[Uuid, list[str]], assigned: PartialAssignment
) -> None:
    together: dict[tuple[tuple[str, ...], int], list[Uuid]] = {}
    for topic, members in readers.items():
        together.setdefault((tuple(members), group.partitions[topic]), []).append(topic)
    for (members, count), topics in together.items():
        for member_id, partitions in _near_first(group, topics, count, members).items():
            if partitions:
                for topic in topics:
                    assigned[member_id][topic] = frozenset(partitions)


def _near_first(
    group: GroupSpec, topics: Sequence[Uuid], count: int, members: Sequence[str]
) -> dict[str, list[int]]:
    """Return the partition numbers of each member, the same in all of `topics`."""
    each, extras = divmod(count, len(members))
    quota = {m: each + (index < extras) for index, m in enumerate(members)}
    assigned: dict[str, list[int]] = {m: [] for m in members}
    free = dict.fromkeys(range(count))
    for member_id in members:
        rack = group.members[member_id].rack
        if rack is not None:
            near = [p for p in free if _in_rack(group, topics, p, rack)][: quota[member_id]]
            assigned[member_id] = near
            for partition in near:
                del free[partition]
    left = iter(free)
    for member_id in members:
        while len(assigned[member_id]) < quota[member_id]:
            assigned[member_id].append(next(left))
    return assigned


def _in_rack(group: GroupSpec, topics: Sequence[Uuid], partition: int, rack: str) -> bool:
    return all(rack in group.racks.get(TopicIdPartition(t, partition), ()) for t in topics)
