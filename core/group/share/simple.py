"""The server-side assignor `simple`: each partition is shared by as many members as are needed to
give every member one.

With fewer members than partitions, each partition has one reader, and the numbers of partitions of
members differ by at most one. With more members, partitions are shared, each by the same number of
members. Balance comes first, then moving as few partitions as possible. If members are subscribed
to different topics, each topic is divided separately. Kafka's `SimpleAssignor` has the same quotas.
Which of several equal partitions moves may differ, because in Kafka it depends on the order of
Java's hash sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pk.core.group.assignor import Assignment, GroupSpec, member_order, topic_order
from pk.core.values import TopicIdPartition, Uuid


class SimpleAssignor:
    """The assignor `simple`. Unlike other `ServerAssignor`s, it may give a partition to several
    members."""

    name = "simple"

    def assign(
        self, group: GroupSpec, assignable: Mapping[Uuid, frozenset[int]]
    ) -> dict[str, Assignment]:
        """Assign the `assignable` partitions. The result contains every member."""
        members = member_order(group.members)
        assigned: dict[str, dict[Uuid, set[int]]] = {member_id: {} for member_id in members}
        read: set[Uuid] = set()
        for spec in group.members.values():
            read |= spec.topics
        topics = topic_order(frozenset(read & assignable.keys()))
        blocks = [topics] if group.is_homogeneous else [[topic_id] for topic_id in topics]
        for block in blocks:
            readers = [m for m in members if set(block) <= group.members[m].topics]
            partitions = [TopicIdPartition(t, p) for t in block for p in sorted(assignable[t])]
            wanted = set(partitions)
            held = {
                member_id: [
                    TopicIdPartition(t, p)
                    for t in block
                    for p in sorted(group.members[member_id].target.get(t, ()))
                    if TopicIdPartition(t, p) in wanted
                ]
                for member_id in readers
            }
            for member_id, own in _shared_out(readers, partitions, held).items():
                for topic_id, partition in own:
                    assigned[member_id].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {t: frozenset(ps) for t, ps in own.items()}
            for member_id, own in assigned.items()
        }


def _shared_out(
    members: Sequence[str],
    partitions: Sequence[TopicIdPartition],
    held: Mapping[str, Sequence[TopicIdPartition]],
) -> dict[str, dict[TopicIdPartition, None]]:
    """Divide `partitions` among `members`. `held` are the partitions that each has already."""
    if not partitions or not members:
        return {member_id: {} for member_id in members}
    sharing = -(-len(members) // len(partitions))
    total = sharing * len(partitions)
    quotas = {
        member_id: -(-total * (i + 1) // len(members)) - -(-total * i // len(members))
        for i, member_id in enumerate(members)
    }
    own = {member_id: dict.fromkeys(held[member_id]) for member_id in members}
    readers: dict[TopicIdPartition, dict[str, None]] = {tp: {} for tp in partitions}
    for member_id, tps in own.items():
        for tp in tps:
            readers[tp][member_id] = None

    for tp, of_partition in readers.items():
        surplus = len(of_partition) - sharing
        if surplus > 0:
            # Members above their quotas give up partitions first.
            ranked = sorted(of_partition, key=lambda m: len(own[m]) <= quotas[m])
            for member_id in ranked[:surplus]:
                del of_partition[member_id], own[member_id][tp]
    for member_id in members:
        for tp in list(own[member_id])[: max(0, len(own[member_id]) - quotas[member_id])]:
            del own[member_id][tp], readers[tp][member_id]

    open_members = [m for m in members if len(own[m]) < quotas[m]]
    at = 0
    for tp, of_partition in readers.items():
        tried = 0
        while len(of_partition) < sharing and tried < len(open_members):
            at %= len(open_members)
            member_id = open_members[at]
            if member_id in of_partition:
                at, tried = at + 1, tried + 1
                continue
            own[member_id][tp] = None
            of_partition[member_id] = None
            tried = 0
            if len(own[member_id]) >= quotas[member_id]:
                del open_members[at]
            else:
                at += 1
        if not open_members:
            break
    return own
