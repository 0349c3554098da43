"""Keeps a member of a classic group alive. v3 adds static members (KIP-345)."""

from pk.core.wire.schema import Request, Response, field, message
from pk.core.wire.types import Int16, Int32


@message(versions=(0, 4))
class HeartbeatRequest(Request["HeartbeatResponse"]):
    """The request of Heartbeat."""

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: str | None = field(default=None, since=3, nullable=3)


@message(versions=(0, 4))
class HeartbeatResponse(Response):
    """The response of Heartbeat."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    error_code: Int16 = 0
