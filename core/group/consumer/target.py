"""The computation of a target assignment: the assignor's input, and the members that get its
result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pk.core.group.assignor import (
    Assignment,
    GroupSpec,
    MemberSpec,
    ServerAssignor,
)
from pk.core.group.consumer.group import ConsumerGroup, Resolved, topics_of
from pk.core.group.consumer.member import ConsumerMember
from pk.core.group.consumer.ranges import ServerRangeAssignor
from pk.core.group.consumer.uniform import UniformAssignor
from pk.core.group.topics import Topics
from pk.core.values import TopicIdPartition, Uuid

SERVER_ASSIGNORS: Final[Mapping[str, ServerAssignor]] = {
    assignor.name: assignor for assignor in (UniformAssignor(), ServerRangeAssignor())
}
"""All server-side assignors by name."""


def group_spec(
    group: ConsumerGroup,
    topics: Topics,
    resolved: Mapping[str, Resolved],
    updated: ConsumerMember | None = None,
) -> GroupSpec:
    """Return the assignor's input, with `updated` in place of its earlier version or of the static
    member that it replaces."""
    members = dict(group.members)
    if updated is not None:
        replaced = group.static_member(updated.instance_id)
        if replaced is not None and replaced.member_id != updated.member_id:
            members.pop(replaced.member_id, None)
        members[updated.member_id] = updated
    ids: dict[tuple[frozenset[str], str], frozenset[Uuid]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id, member in members.items():
        read = (member.topics, member.regex)
        known = ids.get(read)
        if known is None:
            known = ids[read] = topics.ids(topics_of(member, resolved))
        specs[member_id] = MemberSpec(
            known, group.target_of(member), member.instance_id, member.rack_id or None
        )
    read_by_any = set[Uuid]().union(*ids.values())
    counts = {t: len(topics.image.topics_by_id[t].partitions) for t in read_by_any}
    racks: dict[TopicIdPartition, frozenset[str]] = {}
    if any(spec.rack for spec in specs.values()):
        racks = topics.partition_racks(read_by_any)
    return GroupSpec(specs, counts, racks)


def without_departed(
    group: ConsumerGroup, spec: GroupSpec, assignments: Mapping[str, Assignment]
) -> dict[str, Assignment]:
    """Return `assignments`, which were computed for the members in `spec`, without members that
    have left since. The part of a static member that was replaced goes to its successor."""
    kept: dict[str, Assignment] = {}
    for member_id, assignment in assignments.items():
        instance_id = spec.members[member_id].instance_id
        now = group.static_members.get(instance_id) if instance_id is not None else member_id
        if now is not None and now in group.members:
            kept[now] = assignment
    return kept
