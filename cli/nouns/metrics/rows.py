"""The rows of `pk metrics`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, TypedDict

from pk.cli.output.rows import Shown


def show_value(value: float) -> str:
    """Show a value without insignificant digits, but with all digits before the point."""
    if 1000 <= abs(value) < 1e15 or (value == int(value) and abs(value) < 1e15):
        return f"{value:.0f}"
    return f"{value:.4g}"


def _on_terminal(row: Mapping[str, Any]) -> str:
    """Show a value; a time in seconds since 1970 is shown as a date."""
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
    """The name in Prometheus: a counter's without `_total`; a histogram's with `_p50`, `_p99`,
    `_count` or `_sum`."""
    labels: str
    value: Annotated[float | None, Shown(show=show_value, on_terminal=_on_terminal)]
    rate: Annotated[float | None, Shown(show=show_value)]
    """The growth of a counter per second; null without --for."""
    trend: Annotated[str | None, Shown(word=True)]
    """For each second of --for, a counter's growth, or the value."""
