"""GetTelemetrySubscriptions (71) and PushTelemetry (72), version 0: metrics that clients push
(KIP-714).

As in Apache Kafka, brokers serve these only where something takes the metrics:
`pk.metrics.listener` shows them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from pk.core.api.authorization import guarded
from pk.core.api.registry import Answer, AnyApi, Api
from pk.core.broker.offload import offload
from pk.core.broker.requests.context import Context
from pk.core.broker.telemetry.client_metrics import CODECS, ClientMetrics, Peer
from pk.core.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pk.core.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from pk.core.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

API_VERSIONS: Final = 18
VERSION_CLIENT_SOFTWARE: Final = 3
TELEMETRY: Final = ((71, 0, 0), (72, 0, 0))
"""The two as ApiVersions lists them."""


def served(metrics: ClientMetrics) -> tuple[AnyApi, AnyApi]:
    """The two APIs, over the metrics of a broker's clients."""

    def get(
        context: Context, request: GetTelemetrySubscriptionsRequest
    ) -> GetTelemetrySubscriptionsResponse:
        """What the client shall push."""
        instance, asked = metrics.ask(request.client_instance_id, _peer(metrics, context))
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance,
            subscription_id=asked.subscription_id,
            accepted_compression_types=[int(codec) for codec in CODECS],
            push_interval_ms=asked.interval_ms,
            telemetry_max_bytes=metrics.bytes_max,
            delta_temporality=True,
            requested_metrics=list(asked.metrics),
        )

    async def push(context: Context, request: PushTelemetryRequest) -> PushTelemetryResponse:
        """Take what it pushes."""
        data = bytes(request.metrics)
        metrics.check_push(
            request.client_instance_id,
            request.subscription_id,
            request.compression_type,
            len(data),
            ends=request.terminating,
            peer=_peer(metrics, context),
        )
        pushed = await offload(metrics.read, request.compression_type, data)
        metrics.keep(request.client_instance_id, pushed)
        return PushTelemetryResponse()

    return guarded(Api(71, (0, 0), get)), guarded(Api(72, (0, 0), push))


def with_telemetry(apis: Iterable[AnyApi], metrics: ClientMetrics) -> tuple[AnyApi, ...]:
    """`apis`, and those of telemetry; ApiVersions remembers what software each client is."""
    return (
        *(_remembering(api, metrics) if api.key == API_VERSIONS else api for api in apis),
        *served(metrics),
    )


def _remembering(
    api: Api[ApiVersionsRequest | None, ApiVersionsResponse], metrics: ClientMetrics
) -> Api[ApiVersionsRequest | None, ApiVersionsResponse]:
    def handle(context: Context, request: ApiVersionsRequest | None) -> Answer[ApiVersionsResponse]:
        if request is not None and context.api_version >= VERSION_CLIENT_SOFTWARE:
            name, version = request.client_software_name, request.client_software_version
            metrics.introduced(context.connection_id, name, version)
        return api.handle(context, request)

    return replace(api, handle=handle)


def _peer(metrics: ClientMetrics, context: Context) -> Peer:
    name, version = metrics.software(context.connection_id)
    return Peer(context.client_id or "", name, version, context.client_host.removeprefix("/"))
