"""Distributes the leader's assignment to the members of a classic group. v3 adds static members
(KIP-345), v5 protocol type and name (KIP-559)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32


@struct
class SyncGroupRequestAssignment(Struct):
    """One of `SyncGroupRequest.assignments`."""

    member_id: str = ""
    assignment: bytes = b""


@message(versions=(0, 5))
class SyncGroupRequest(Request["SyncGroupResponse"]):
    """The request of SyncGroup."""

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: str | None = field(default=None, since=3, nullable=3)
    protocol_type: str | None = field(default=None, since=5, nullable=5, ignorable=True)
    protocol_name: str | None = field(default=None, since=5, nullable=5, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)


@message(versions=(0, 5))
class SyncGroupResponse(Response):
    """The response of SyncGroup."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    error_code: Int16 = 0
    protocol_type: str | None = field(default=None, since=5, nullable=5, ignorable=True)
    protocol_name: str | None = field(default=None, since=5, nullable=5, ignorable=True)
    assignment: bytes = b""
