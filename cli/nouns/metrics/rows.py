"""The rows of `pk metrics`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, TypedDict

from pk.cli.output.rows import Shown


def show_value(value: float) -> str:
    """A value without digits that say nothing, and with all digits before the point."""
    if 1000 <= abs(value) < 1e15 or (value == int(value) and abs(value) < 1e15):
        return f"{value:.0f}"
    return f"{value:.4g}"


def _on_terminal(row: Mapping[str, Any]) -> str:
    """The value; of a moment, since 1970 in seconds, its time."""
    value = row["value"]
    if value is None:
        return "-"
    if row["metric"].endswith("_start_time_seconds"):
        return datetime.fromtimestamp(value).astimezone().isoformat(" ", "seconds")
    return show_value(value)


class MetricRow(TypedDict):
    """One value of a broker's metrics."""

    broker: str
    metric: str
    """Its name for Prometheus, a counter's without `_total`; of a histogram `_p50`, `_p99`,
    `_count` and `_sum`."""
    labels: str
    value: Annotated[float | None, Shown(show=show_value, on_terminal=_on_terminal)]
    rate: Annotated[float | None, Shown(show=show_value)]
    """A counter's growth a second; null without --for."""
    trend: Annotated[str | None, Shown(word=True)]
    """Each second of --for: a counter's growth, or the value."""
