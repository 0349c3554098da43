"""What was measured, as a table of ratios for people and as JSON for machines."""

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
    """One figure of both systems. Values are one a round; a system's figure is their median.

    `goal` is the bound of pk's figure over Apache's: a floor where more is better (`higher`), else a
    ceiling; None where the ratio is only reported. `limit` is a ceiling of pk's figure itself, where more is better a
    floor.
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
        """The system's figure, if it was measured."""
        values = self.values.get(system)
        return statistics.median(values) if values else None

    def ratio(self) -> float | None:
        """pk's figure over Apache's."""
        ours, theirs = self.median("pk"), self.median("apache")
        return ours / theirs if ours is not None and theirs else None

    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal or a ratio."""
        ours, ratio = self.median("pk"), self.ratio()
        if self.limit is not None and ours is not None:
            return ours >= self.limit if self.higher else ours <= self.limit
        if ratio is None or self.goal is None:
            return None
        return ratio >= self.goal if self.higher else ratio <= self.goal


class Results:
    """All rows of a run, in the order in which they were first measured."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}

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
        """The row of that name, made at the first call."""
        return self.rows.setdefault(name, Row(name, unit, driver, higher, goal, limit))


def show(results: Results, console: Console) -> None:
    """Prints the table of ratios."""
    table = Table(title="pk beside Apache Kafka (medians; ratio = pk / Apache)")
    for heading in ("", "driver"):
        table.add_column(heading, no_wrap=True)
    for heading in ("unit", "pk", "Apache", "ratio", "goal"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for row in results.rows.values():
        goal = "" if row.goal is None else f"{'≥' if row.higher else '≤'} {row.goal:g}"
        if row.limit is not None:
            goal = f"{'≥' if row.higher else '≤'} {_figure(row.limit)} {row.unit}"
        met = {True: "[green]met[/]", False: "[red]short[/]", None: ""}[row.met()]
        figures = [_figure(row.median("pk")), _figure(row.median("apache")), _figure(row.ratio())]
        table.add_row(row.name, row.driver, row.unit, *figures, goal, met)
    console.print(table)


def _figure(value: float | None) -> str:
    if value is None:
        return "–"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def as_json(results: Results, settings: dict[str, Any]) -> dict[str, Any]:
    """Everything measured, every round, with the machine it was measured on."""
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
    """Writes the JSON."""
    path.write_text(json.dumps(as_json(results, settings), indent=1) + "\n")
