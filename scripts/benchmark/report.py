"""Reports the results of a benchmark as a table of ratios and as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclasses.dataclass
class Row:
    """One figure for each system. Each round adds a value; the figure is their median.

    `goal` is the bound of the ratio of pk's figure to Apache's: a lower bound if more is better
    (`higher`), and otherwise an upper bound. It is None if the ratio is only reported. `limit` is
    such a bound of pk's figure itself.
    """

    name: str
    unit: str
    driver: str
    higher: bool
    goal: float | None = None
    limit: float | None = None
    values: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    def add(self, system: str, value: float) -> None:
        self.values.setdefault(system, []).append(value)

    def median(self, system: str) -> float | None:
        """Return the system's figure; None if it was not measured."""
        values = self.values.get(system)
        return statistics.median(values) if values else None

    def ratio(self) -> float | None:
        """Return the ratio of pk's figure to Apache's."""
        ours, theirs = self.median("pk"), self.median("apache")
        return ours / theirs if ours is not None and theirs else None

    def met(self) -> bool | None:
        """Return whether every goal that can be judged is met; None without a goal or a figure."""
        ours, ratio = self.median("pk"), self.ratio()
        verdicts: list[bool] = []
        if self.limit is not None and ours is not None:
            verdicts.append(ours >= self.limit if self.higher else ours <= self.limit)
        if self.goal is not None and ratio is not None:
            verdicts.append(ratio >= self.goal if self.higher else ratio <= self.goal)
        return all(verdicts) if verdicts else None

    def goals(self) -> str:
        """Return the goals, as the table shows them."""
        sign = "≥" if self.higher else "≤"
        shown = [] if self.limit is None else [f"{sign} {_figure(self.limit)} {self.unit}"]
        if self.goal is not None:
            shown.append(f"{sign} {self.goal:g} × Apache")
        return ", ".join(shown)


class Results:
    """The rows of a run, in the order in which they were first measured."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}

    def row(
        self,
        name: str,
        unit: str,
        driver: str,
        *,
        higher: bool,
        goal: float | None = None,
        limit: float | None = None,
    ) -> Row:
        """Return the row with that name and driver. The first call creates it."""
        new = Row(name, unit, driver, higher, goal, limit)
        return self.rows.setdefault((name, driver), new)


def show(results: Results, console: Console) -> None:
    """Print the table of ratios."""
    table = Table(title="pk beside Apache Kafka (medians; ratio = pk / the other)")
    for heading in ("", "driver"):
        table.add_column(heading, no_wrap=True)
    for heading in ("unit", "pk", "Apache", "ratio", "goal"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in results.rows.values():
        figures = [_figure(row.median("pk")), _figure(row.median("apache")), _figure(row.ratio())]
        cells = [row.name, row.driver, row.unit, *figures, row.goals(), _verdict(row.met())]
        table.add_row(*cells)
    console.print(table)


def _verdict(met: bool | None) -> str:
    return {True: "[green]met[/]", False: "[red]short[/]", None: ""}[met]


def _figure(value: float | None) -> str:
    if value is None:
        return "–"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def as_json(results: Results, settings: dict[str, Any]) -> dict[str, Any]:
    """Return all measured values of every round, with the machine on which they were measured."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "load_average": os.getloadavg(),
        },
        "settings": settings,
        "rows": [
            {
                **dataclasses.asdict(row),
                "pk": row.median("pk"),
                "apache": row.median("apache"),
                "ratio": row.ratio(),
                "met": row.met(),
            }
            for row in results.rows.values()
        ],
    }


def write(results: Results, settings: dict[str, Any], path: Path) -> None:
    """Write the JSON."""
    path.write_text(json.dumps(as_json(results, settings), indent=1) + "\n")
