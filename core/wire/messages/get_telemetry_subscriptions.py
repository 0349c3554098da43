"""Asks which metrics a client should push (KIP-714)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, field, message
from pk.core.wire.types import Int8, Int16, Int32, Uuid


@message(versions=(0, 0))
class GetTelemetrySubscriptionsRequest(Request["GetTelemetrySubscriptionsResponse"]):
    """The request of GetTelemetrySubscriptions."""

    client_instance_id: Uuid = ZERO_UUID


@message(versions=(0, 0))
class GetTelemetrySubscriptionsResponse(Response):
    """The response of GetTelemetrySubscriptions."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = field(default_factory=list)
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: bool = False
    requested_metrics: list[str] = field(default_factory=list)
