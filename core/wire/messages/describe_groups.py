"""Describes classic groups and their members. v3 adds authorized operations (KIP-430), v4 static
members (KIP-345), v6 error messages (KIP-1043)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32


@message(versions=(0, 6))
class DescribeGroupsRequest(Request["DescribeGroupsResponse"]):
    """The request of DescribeGroups."""

    groups: list[str] = field(default_factory=list)
    include_authorized_operations: bool = field(default=False, since=3)


@struct
class DescribedGroupMember(Struct):
    """One of `DescribedGroup.members`."""

    member_id: str = ""
    group_instance_id: str | None = field(default=None, since=4, nullable=4, ignorable=True)
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@struct
class DescribedGroup(Struct):
    """One of `DescribeGroupsResponse.groups`."""

    error_code: Int16 = 0
    error_message: str | None = field(default=None, since=6, nullable=6)
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: Int32 = field(default=-2147483648, since=3)


@message(versions=(0, 6))
class DescribeGroupsResponse(Response):
    """The response of DescribeGroups."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    groups: list[DescribedGroup] = field(default_factory=list)
