"""Metrics of producers and consumers for Prometheus (extra `metrics`).

    metrics = ClientMetrics()
    with open_producer("localhost:9092") as producer, metrics.of(producer, "orders"):
        ...

Each value of the client's `metrics()` becomes a metric: `record-send-total` of a producer is
`kafka_producer_record_send_total`, with the label `client`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from threading import Lock
from typing import Protocol

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pk.client import blocking
from pk.net.client.consumer import Consumer

__all__ = ["ClientMetrics"]


class MeteredClient(Protocol):
    """A producer or a consumer, on trio, on asyncio or blocking."""

    def metrics(self) -> dict[str, float]: ...


class ClientMetrics(Collector):
    """Exports the metrics of clients to a registry. One object serves all clients of a program."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Initialize the exporter. `registry` is the registry that the program exports; by default
        the library's own. Raises ValueError if the registry has such an object already."""
        self._lock = Lock()
        self._clients: dict[tuple[str, str], MeteredClient] = {}
        (registry or REGISTRY).register(self)

    @contextmanager
    def of(self, client: MeteredClient, name: str) -> Generator[None]:
        """Export the metrics of `client` during the block, which must be inside the client's own
        block. `name` is the value of the label `client`. Raises ValueError if another producer, or
        another consumer, has that name."""
        kind = "consumer" if isinstance(client, Consumer | blocking.Consumer) else "producer"
        with self._lock:
            if (kind, name) in self._clients:
                raise ValueError(f"another {kind} already has the name {name!r}")
            self._clients[kind, name] = client
        try:
            yield
        finally:
            with self._lock:
                del self._clients[kind, name]

    def describe(self) -> Iterable[Metric]:
        """Return no names: the registry asks for them before there are clients."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return the current metrics of the clients. The registry calls this in any thread."""
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        with self._lock:
            for (kind, name), client in self._clients.items():
                for metric, value in client.metrics().items():
                    full = f"kafka_{kind}_{metric.replace('-', '_')}"
                    family = families.get(full)
                    if family is None:
                        make = (
                            CounterMetricFamily if metric.endswith("-total") else GaugeMetricFamily
                        )
                        text = f"{metric} of the {kind}"
                        family = families[full] = make(full, text, labels=["client"])
                    family.add_metric([name], value)
        return families.values()
