"""GetTelemetrySubscriptions (71), version 0: the metrics that a client should push (KIP-714)."""

from pk.core.api.cluster.telemetry import metrics_and_peer
from pk.core.broker.requests.context import Context
from pk.core.broker.telemetry.client_metrics import CODECS
from pk.core.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


def handle(
    context: Context, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Return the client's subscription."""
    metrics, peer = metrics_and_peer(context)
    instance, subscription = metrics.subscription_of(request.client_instance_id, peer)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance,
        subscription_id=subscription.subscription_id,
        accepted_compression_types=[int(codec) for codec in CODECS],
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=metrics.bytes_max,
        delta_temporality=True,
        requested_metrics=list(subscription.metrics),
    )
