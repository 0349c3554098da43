"""Removes a broker's registration (KIP-631)."""

from pk.core.wire.schema import Request, Response, field, message
from pk.core.wire.types import Int16, Int32


@message(versions=(0, 0))
class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"]):
    """The request of UnregisterBroker."""

    broker_id: Int32 = 0


@message(versions=(0, 0))
class UnregisterBrokerResponse(Response):
    """The response of UnregisterBroker."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
