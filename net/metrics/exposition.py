"""Metrics in the Prometheus text format, written by prometheus_client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family

from pk.core import __version__
from pk.core.metrics import Histogram, Metric

_PROCESS = ProcessCollector(registry=None)
"""CPU, memory and descriptors of this process (Linux)."""
_ENDINGS: Final = ("", "_total", "_bucket", "_count", "_sum", "_info")
"""The suffixes that the text format adds to the name of a metric."""


class _Collected:
    """The collector that the library queries."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def exposition(
    metrics: Iterable[Metric], accept: str, names: frozenset[str] = frozenset()
) -> tuple[bytes, str]:
    """Return the text and its content type, as the request's header `accept` requests it. `names`
    restricts the metrics, with or without a suffix such as `_total`; empty for all."""
    families = [
        _family(metric) for metric in metrics if not names or _is_among(metric.prometheus, names)
    ]
    others: list[Family] = list(_PROCESS.collect())
    others.append(InfoMetricFamily("pk_build", "The version of pk.", {"version": __version__}))
    families += [one for one in others if not names or _is_among(one.name, names)]
    encode, content_type = choose_encoder(accept)
    return encode(_Collected(families)), content_type  # pyright: ignore[reportArgumentType] - it only collects


def _is_among(name: str, names: frozenset[str]) -> bool:
    return any(name + ending in names for ending in _ENDINGS)


def _family(metric: Metric) -> Family:
    """Return one metric with all its samples."""
    text = f"{metric.help} ({metric.name})"
    named = metric.labels or {label for sample in metric.samples for label in sample.labels}
    labels = sorted(named)
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.prometheus, text, labels=labels)
        for values, value in _samples(metric, labels):
            assert isinstance(value, Histogram)
            histogram.add_metric(values, value.cumulative(), value.sum_ms)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.prometheus, text, labels=labels)
    for values, value in _samples(metric, labels):
        assert not isinstance(value, Histogram)
        family.add_metric(values, value)
    return family


def _samples(
    metric: Metric, labels: Sequence[str]
) -> Iterator[tuple[list[str], float | Histogram]]:
    for sample in metric.samples:
        yield [sample.labels.get(label, "") for label in labels], sample.value
