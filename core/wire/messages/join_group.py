"""Joins a classic group and waits for its next generation. v4 requires a member id (KIP-394), v5
adds static members (KIP-345), v8 a reason (KIP-800), v9 lets the leader skip the assignment
(KIP-814)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32


@struct
class JoinGroupRequestProtocol(Struct):
    """One of `JoinGroupRequest.protocols`."""

    name: str = ""
    metadata: bytes = b""


@message(versions=(0, 9))
class JoinGroupRequest(Request["JoinGroupResponse"]):
    """The request of JoinGroup."""

    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = field(default=-1, since=1, ignorable=True)
    member_id: str = ""
    group_instance_id: str | None = field(default=None, since=5, nullable=5)
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)
    reason: str | None = field(default=None, since=8, nullable=8, ignorable=True)


@struct
class JoinGroupResponseMember(Struct):
    """One of `JoinGroupResponse.members`."""

    member_id: str = ""
    group_instance_id: str | None = field(default=None, since=5, nullable=5, ignorable=True)
    metadata: bytes = b""


@message(versions=(0, 9))
class JoinGroupResponse(Response):
    """The response of JoinGroup."""

    throttle_time_ms: Int32 = field(default=0, since=2, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: str | None = field(default=None, since=7, nullable=7, ignorable=True)
    protocol_name: str | None = field(default="", nullable=7)
    leader: str = ""
    skip_assignment: bool = field(default=False, since=9)
    member_id: str = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)
