"""`pk perf --compare`: compares the figures of a result with those of an earlier one."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from pk.cli.exits import Unusable
from pk.cli.nouns.perf.rows import FigureChange, LatencyMs
from pk.cli.output.formats import Section
from pk.cli.output.rows import listing, names

RATES: Final = ("records_per_second", "mb_per_second")
_SAME: Final = 5.0
"""A change of less than this many percent is no difference."""

_SETTINGS: Final = (
    "test",
    "partitions",
    "replication_factor",
    "record_size",
    "template",
    "rate",
    "acks",
    "compression",
    "config",
)


class Comparison(NamedTuple):
    """This run compared with another."""

    name: str
    rows: Sequence[FigureChange]
    differs: Sequence[str]
    """The settings in which the two runs differ."""

    def section(self) -> Section:
        title = f"Compared with {self.name}"
        if self.differs:
            title += f"; they differ in {', '.join(self.differs)}"
        return Section(title, listing(FigureChange, self.rows, _style))


def _style(row: FigureChange) -> str | None:
    return {"better": "green", "worse": "red"}.get(row["verdict"])


def read_result(path: str) -> dict[str, Any]:
    """Read a result that `-f json` wrote. Raises Unusable."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except OSError as e:
        raise Unusable(f"--compare: {path} cannot be read: {e.strerror}.") from None
    except ValueError:
        found = None
    if isinstance(found, list) and len(rows := cast("list[Any]", found)) == 1:
        found = rows[0]
    if not isinstance(found, dict) or "records_per_second" not in found:
        raise Unusable(f"--compare: {path} is not a result of `pk perf … -f json`.")
    return cast("dict[str, Any]", found)


def compare(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Comparison:
    """Compare the figures of two results."""
    rows: list[FigureChange] = []
    for figure in (*RATES, "client_cpu_seconds", *names(LatencyMs)):
        a, b = _figure(before, figure), _figure(now, figure)
        if a is None or b is None:
            continue
        change = (b - a) * 100 / a if a else None
        up = figure in RATES
        verdict = ""
        if change is not None and abs(change) >= _SAME:
            verdict = "better" if (change > 0) == up else "worse"
        rows.append(
            {
                "figure": figure.replace("p99_9", "p99.9").replace("_", " "),
                "before": a,
                "now": b,
                "change_percent": None if change is None else round(change, 1),
                "verdict": verdict,
            }
        )
    differs = [name for name in _SETTINGS if before.get(name) != now.get(name)]
    return Comparison(name, rows, differs)


def _figure(result: Mapping[str, Any], name: str) -> float | None:
    """A figure of a result; None if the result has none with that name."""
    latency: Mapping[str, float] = result.get("latency_ms") or {}
    return result.get(name, latency.get(name))
