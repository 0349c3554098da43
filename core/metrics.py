"""Counters, gauges and histograms, cheap enough for the path of every request.

Counting is adding to an attribute; a histogram finds its bucket in a short tuple. Neither has a
lock: everything runs on the broker's loop. Gauges are not kept: a reader of metrics computes them
(`Sample`), so a metric that is never read costs nothing.

Names are Kafka's JMX names: `kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec`.
`prometheus_name` converts them as Prometheus' JMX exporter does:
`kafka_server_brokertopicmetrics_bytesin_total`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final, Literal

from msgspec import Struct, field

Kind = Literal["counter", "gauge", "histogram"]
Labels = Mapping[str, str]

BUCKETS_MS: Final = (
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0,
    10_000.0, 30_000.0,
)  # fmt: skip
"""The upper bounds of a histogram's buckets, in ms. There is one more bucket above the last
bound."""


class Counter:
    """A value that only increases. Callers add to `value`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Histogram:
    """The distribution of values in ms over `BUCKETS_MS`."""

    __slots__ = ("counts", "sum_ms")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_MS) + 1)
        self.sum_ms = 0.0

    def observe(self, value_ms: float, times: int = 1) -> None:
        """Count a value `times` times."""
        self.counts[bisect_left(BUCKETS_MS, value_ms)] += times
        self.sum_ms += value_ms * times

    @property
    def count(self) -> int:
        """The number of observed values."""
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, int]]:
        """Return (upper bound in Prometheus' format, number of values up to it) for each bucket."""
        bounds = [*(f"{bound}" for bound in BUCKETS_MS), "+Inf"]
        return list(zip(bounds, accumulate(self.counts), strict=True))

    def quantile(self, share: float) -> float | None:
        """Return the estimated value below which this share of all values is, or None without
        values."""
        return quantile(self.cumulative(), share)


def quantile(cumulative: Sequence[tuple[str, float]], share: float) -> float | None:
    """Return the quantile of cumulative buckets, interpolated linearly within the bucket, as
    Prometheus does."""
    total = cumulative[-1][1] if cumulative else 0
    if total <= 0:
        return None
    wanted, low, before = share * total, 0.0, 0.0
    for bound, count in cumulative:
        if count >= wanted and count > before:
            if bound == "+Inf":
                return low
            high = float(bound)
            return min(low + (high - low) * (wanted - before) / (count - before), high)
        if bound != "+Inf":
            low, before = float(bound), count
    return low


class Sample(Struct, frozen=True):
    """One value of a metric."""

    value: float | Histogram
    labels: Labels = field(default_factory=dict[str, str])


class Metric(Struct, frozen=True):
    """A metric with its values. `name` is Kafka's."""

    name: str
    kind: Kind
    help: str
    samples: Sequence[Sample] = field(default_factory=list[Sample])
    labels: Sequence[str] = ()
    """The names of the samples' labels."""

    @property
    def prometheus(self) -> str:
        """The name for Prometheus, without the `_total` of counters."""
        return prometheus_name(self.name)


_KAFKA_NAME: Final = re.compile(r"([\w.]+):type=([\w-]+)(?:,name=([\w-]+))?")


def prometheus_name(name: str) -> str:
    """Return the name that Prometheus' JMX exporter gives to a metric of Kafka's, without the
    `_total` of counters.

    Raises ValueError for any other name.
    """
    found = _KAFKA_NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"not a name of Kafka's metrics: {name!r}")
    parts = [part.removesuffix("PerSec").removesuffix("-total") for part in found.groups() if part]
    return re.sub(r"[^a-z0-9]+", "_", "_".join(parts).lower())
