"""The common part of the two APIs through which clients push metrics (KIP-714).

As in Apache Kafka, brokers serve these APIs only if something uses the metrics:
`pk.metrics.listener` exposes them.
"""

from __future__ import annotations

from pk.core.broker.requests.context import Context
from pk.core.broker.telemetry.client_metrics import ClientMetrics, Peer


def metrics_and_peer(context: Context) -> tuple[ClientMetrics, Peer]:
    """Return the metrics of the broker's clients, and the client that sent the request."""
    metrics = context.broker.client_metrics
    assert metrics is not None, "served only with pk.metrics.listener"
    name, version = metrics.software(context.connection_id)
    host = context.client_host.removeprefix("/")
    return metrics, Peer(context.client_id or "", name, version, host)
