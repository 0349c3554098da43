"""Keeps a broker's registration alive, and asks to be unfenced or shut down (KIP-631). v1 adds
offline directories (KIP-858), v2 cordoned ones (KIP-1066)."""

from pk.core.wire.schema import Request, Response, field, message
from pk.core.wire.types import Int16, Int32, Int64, Uuid


@message(versions=(0, 2))
class BrokerHeartbeatRequest(Request["BrokerHeartbeatResponse"]):
    """The request of BrokerHeartbeat."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64 = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: list[Uuid] = field(default_factory=list, since=1, tag=0)
    cordoned_log_dirs: list[Uuid] | None = field(default=None, since=2, nullable=2, tag=1)


@message(versions=(0, 2))
class BrokerHeartbeatResponse(Response):
    """The response of BrokerHeartbeat."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
