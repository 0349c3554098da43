"""Leaves a classic group. v3 adds several members (KIP-345), v5 a reason (KIP-800)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32


@struct
class MemberIdentity(Struct):
    """One of `LeaveGroupRequest.members`."""

    member_id: str = field(default="", since=3)
    group_instance_id: str | None = field(default=None, since=3, nullable=3)
    reason: str | None = field(default=None, since=5, nullable=5, ignorable=True)


@message(versions=(0, 5))
class LeaveGroupRequest(Request["LeaveGroupResponse"]):
    """The request of LeaveGroup."""

    group_id: str = ""
    member_id: str = field(default="", until=2)
    members: list[MemberIdentity] = field(default_factory=list, since=3)


@struct
class MemberResponse(Struct):
    """One of `LeaveGroupResponse.members`."""

    member_id: str = field(default="", since=3)
    group_instance_id: str | None = field(default="", since=3, nullable=3)
    error_code: Int16 = field(default=0, since=3)


@message(versions=(0, 5))
class LeaveGroupResponse(Response):
    """The response of LeaveGroup."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    error_code: Int16 = 0
    members: list[MemberResponse] = field(default_factory=list, since=3)
