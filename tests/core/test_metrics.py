"""Counters, histograms, and Kafka's names as Prometheus has them."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pk.core.metrics import BUCKETS_MS, Histogram, prometheus_name


@pytest.mark.parametrize(
    ("kafka", "prometheus"),
    [
        (
            "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec",
            "kafka_server_brokertopicmetrics_bytesin",
        ),
        (
            "kafka.server:type=socket-server-metrics,name=connection-creation-total",
            "kafka_server_socket_server_metrics_connection_creation",
        ),
        ("kafka.server:type=app-info", "kafka_server_app_info"),
    ],
)
def test_names(kafka: str, prometheus: str) -> None:
    assert prometheus_name(kafka) == prometheus


def test_what_is_no_name() -> None:
    with pytest.raises(ValueError, match="not a name"):
        prometheus_name("bytes in")


def test_a_histogram_without_values() -> None:
    histogram = Histogram()
    assert histogram.count == 0 and histogram.quantile(0.5) is None
    assert histogram.cumulative()[-1] == ("+Inf", 0)


def test_bounds_belong_to_their_bucket() -> None:
    histogram = Histogram()
    for bound in BUCKETS_MS:
        histogram.observe(bound)
    histogram.observe(1e9, 3)
    assert histogram.counts == [1] * len(BUCKETS_MS) + [3]
    assert histogram.quantile(1) == BUCKETS_MS[-1]


@given(st.lists(st.floats(0, 30_000), min_size=1, max_size=200), st.floats(0.01, 1))
@example([0.0, 0.0, 0.0], 1.0)  # a tenth, times three, by three, is more than a tenth
def test_a_quantile_is_in_the_bucket_of_the_true_one(values: list[float], share: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    true = sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]
    high = next(bound for bound in BUCKETS_MS if true <= bound)
    low = max((bound for bound in BUCKETS_MS if bound < high), default=0.0)
    found = histogram.quantile(share)
    assert found is not None and low <= found <= high
    assert math.isclose(histogram.sum_ms, sum(values), abs_tol=1e-6)
