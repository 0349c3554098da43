"""Pushes a client's metrics (KIP-714)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, message
from pk.core.wire.types import Int8, Int16, Int32, Uuid


@message(versions=(0, 0))
class PushTelemetryRequest(Request["PushTelemetryResponse"]):
    """The request of PushTelemetry."""

    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: bool = False
    compression_type: Int8 = 0
    metrics: bytes = b""


@message(versions=(0, 0))
class PushTelemetryResponse(Response):
    """The response of PushTelemetry."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
