"""The rows of `pk metrics`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


def show_value(value: float) -> str:
    """A value without digits that say nothing."""
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"


class MetricRow(TypedDict):
    """One value of a broker's metrics."""

    broker: str
    metric: str
    """Its name for Prometheus, a counter's without `_total`; of a histogram `_p50`, `_p99`,
    `_count` and `_sum`."""
    labels: str
    value: Annotated[float | None, Shown(show=show_value)]
    rate: Annotated[float | None, Shown(show=show_value)]
    """A counter's growth a second; null without --for."""
    trend: str | None
    """Each second of --for: a counter's growth, or the value."""
