"""PushTelemetry (72), version 0: a client's metrics (KIP-714)."""

from pk.core.api.cluster.telemetry import metrics_and_peer
from pk.core.broker.offload import offload
from pk.core.broker.requests.context import Context
from pk.core.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


async def handle(context: Context, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Store the pushed metrics. Raises KafkaError."""
    metrics, peer = metrics_and_peer(context)
    data = bytes(request.metrics)
    metrics.check_push(
        request.client_instance_id,
        request.subscription_id,
        request.compression_type,
        len(data),
        ends=request.terminating,
        peer=peer,
    )
    pushed = await offload(metrics.read, request.compression_type, data)
    metrics.store(request.client_instance_id, pushed)
    return PushTelemetryResponse()
