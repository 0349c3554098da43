"""The response to DescribeGroups for a group."""

from __future__ import annotations

from pk.core.group.classic.group import ClassicGroup, State
from pk.core.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember


def describe(group: ClassicGroup) -> DescribedGroup:
    """Describe a group. Members' metadata and assignments are included only while the group is
    stable."""
    stable = group.state is State.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            DescribedGroupMember(
                member_id=m.member_id,
                group_instance_id=m.instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                member_metadata=m.metadata(group.protocol) if stable else b"",
                member_assignment=m.assignment,
            )
            for m in group.members.values()
        ],
    )
