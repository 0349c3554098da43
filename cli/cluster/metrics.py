"""Metrics of brokers, from the addresses in their configs."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pk.cli.cluster.metrics_listeners import LISTENER, listeners
from pk.cli.exits import CommandError, Unusable
from pk.core.metrics import quantile
from pk.net.client.admin import Admin

QUANTILES = (("p50", 0.5), ("p99", 0.99))
REQUEST_TIMES = "kafka_network_requestmetrics_totaltimems"
REQUEST_ERRORS = "kafka_network_requestmetrics_errors"

try:
    import trio
    from prometheus_client.metrics_core import Metric
    from prometheus_client.parser import text_string_to_metric_families

    from pk.net.http.address import address
    from pk.net.http.client import HttpClient
    from pk.net.http.messages import HttpError, Request
except ModuleNotFoundError as e:
    raise CommandError(
        f"Metrics need {e.name}, which is not installed: pip install 'pk-broker[metrics]'."
    ) from e


@dataclass(frozen=True)
class Source:
    """The address of one broker's metrics."""

    broker: str
    client: HttpClient


@dataclass(frozen=True)
class Value:
    """The value of a metric with these labels."""

    value: float | None
    grows: bool
    """Whether the metric is a counter or a histogram, and only rises."""


Values = dict[tuple[str, str], Value]
"""(metric, labels) → its value."""


def source_of(broker: str, url: str) -> Source:
    """The source that a URL names, with or without /metrics. Raises Unusable."""
    try:
        return Source(broker, HttpClient(address(url.removesuffix("/metrics"))))
    except ValueError as e:
        raise Unusable(f"--url: {e}.") from None


async def sources(admin: Admin) -> list[Source]:
    """The addresses of the metrics of the cluster's brokers. Raises CommandError if no broker
    serves metrics."""
    found: list[Source] = []
    served = await listeners(admin)
    for broker, url in served.urls.items():
        if url is None:
            raise CommandError(
                f"Broker {broker} chose the port of {LISTENER} itself; give the address with --url."
            )
        found.append(source_of(str(broker), url))
    if not found:
        also = (
            ", or give the address"
            if served.known
            else "; give the address of a Prometheus exporter"
        )
        raise CommandError(f"{served.why_none}{also} with --url.")
    return found


async def read_values(source: Source, wanted: re.Pattern[str] | None) -> Values:
    """The values of the metrics whose names match `wanted`, or of all. Raises CommandError."""
    families = await _families(source)
    values: Values = {}
    for family in families:
        if wanted is not None and not wanted.search(family.name):
            continue
        buckets: dict[str, list[tuple[str, float]]] = {}
        for sample in family.samples:
            bound = sample.labels.get("le")
            labels = _labels(sample.labels)
            if sample.name.endswith("_bucket") and bound is not None:
                buckets.setdefault(labels, []).append((bound, sample.value))
            else:
                grows = family.type in ("counter", "histogram")
                name = sample.name.removesuffix("_total")
                values[name, labels] = Value(sample.value, grows)
        for labels, cumulative in buckets.items():
            for name, share in QUANTILES:
                values[f"{family.name}_{name}", labels] = Value(quantile(cumulative, share), False)
    return values


async def _families(source: Source, names: Sequence[str] = ()) -> list[Metric]:
    """The metrics with these names, or all. Raises CommandError."""
    where = source.client.where.url
    query = "&".join(f"name[]={name}" for name in names)
    try:
        target = f"/metrics?{query}" if query else "/metrics"
        response = await source.client.ask(Request("GET", target))
    except (HttpError, OSError, trio.TooSlowError) as e:
        raise CommandError(f"{where} does not answer: {e}.") from None
    if response.status != 200:
        raise CommandError(f"{where}/metrics answers {response.status}.")
    try:
        return list(text_string_to_metric_families(response.body.decode()))
    except ValueError as e:
        raise CommandError(f"{where}/metrics has no metrics: {e}.") from None


@dataclass(frozen=True)
class RequestCounts:
    """A broker's counts of the requests of one API since it started."""

    times: tuple[tuple[str, int], ...]
    """(upper bound in ms, requests that took at most that): cumulative buckets."""

    errors: int
    """Requests that failed as a whole."""


async def read_request_counts(source: Source) -> dict[str, RequestCounts]:
    """API → a broker's counts of its requests. Raises CommandError."""
    times: dict[str, list[tuple[str, int]]] = {}
    errors: Counter[str] = Counter()
    for family in await _families(source, (REQUEST_TIMES, REQUEST_ERRORS)):
        for sample in family.samples:
            api = sample.labels.get("request", "")
            if sample.name == f"{REQUEST_TIMES}_bucket":
                times.setdefault(api, []).append((sample.labels["le"], int(sample.value)))
            elif sample.name == f"{REQUEST_ERRORS}_total":
                errors[api] += int(sample.value)
    return {api: RequestCounts(tuple(of_api), errors[api]) for api, of_api in times.items()}


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items() if name != "le")


BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float]) -> str:
    """Draw values as bars, from the least to the greatest."""
    if not values:
        return ""
    low, span = min(values), max(values) - min(values)
    return "".join(BARS[int((v - low) / span * (len(BARS) - 1)) if span else 0] for v in values)
