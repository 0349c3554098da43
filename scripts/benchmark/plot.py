"""Draws the results that `scripts/bench` wrote: `scripts/bench --plot [FILE]`. Draws an SVG chart
of pk and Apache Kafka for each unit. The chart names the machine and the day."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs" / "figures"
COLORS = ("#3f51b5", "#9e9e9e")
SYSTEMS = (("pk", "pk"), ("apache", "Apache Kafka"))
OF_BROKERS = ("librdkafka", "Java perf tool", "/proc")
"""The clients in the rows that compare brokers. The other rows compare tools, each with both
brokers."""

WIDTH, BAR_HEIGHT, FRAME_HEIGHT = 900, 44, 190


def main() -> int:
    """Run `scripts/bench --plot`."""
    parser = argparse.ArgumentParser(prog="scripts/bench --plot", description=__doc__)
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        default=FIGURES / "bench-results.json",
        help="what scripts/bench --json wrote (default: docs/figures/bench-results.json)",
    )
    parser.add_argument(
        "--to", type=Path, default=FIGURES, help="the directory for the SVG (default: docs/figures)"
    )
    options = parser.parse_args()
    try:
        results = json.loads(options.file.read_text(encoding="utf-8"))
        rows = [row for row in results["rows"] if row["pk"] is not None and row["apache"]]
        rows = [row for row in rows if row["driver"] in OF_BROKERS]
    except (OSError, ValueError, KeyError, TypeError) as e:
        print(f"{options.file} has no results of scripts/bench: {e!r}.", file=sys.stderr)
        return 1
    if not rows:
        print(f"{options.file} has no row with both pk and Apache Kafka.", file=sys.stderr)
        return 1
    options.to.mkdir(parents=True, exist_ok=True)
    for unit in dict.fromkeys(row["unit"] for row in rows):
        name = re.sub(r"[^a-z0-9]+", "-", unit.lower().replace("µ", "u"))
        path = options.to / f"bench-{name}.svg"
        of_unit = [row for row in rows if row["unit"] == unit]
        path.write_text(draw(unit, of_unit, subtitle(results)) + "\n", encoding="utf-8")
        print(path)
    return 0


def subtitle(results: dict[str, Any]) -> str:
    """Return the machine and the day."""
    machine = results["machine"]
    cores, system, python = machine["cores"], machine["system"], machine["python"]
    return f"{cores} cores, {system}, Python {python}, {results['time'][:10]}"


def draw(unit: str, rows: list[dict[str, Any]], below: str) -> str:
    """Draw a chart of all rows with the same unit. Their values are medians."""
    import pygal
    from pygal.style import Style

    better = "more" if rows[0]["higher"] else "less"
    what = rows[0]["name"].partition(": ")[2]
    style = Style(
        background="#ffffff",
        plot_background="#ffffff",
        colors=COLORS,
        font_family="system-ui, sans-serif",
        title_font_size=15,
        label_font_size=12,
        major_label_font_size=12,
        value_font_size=12,
        legend_font_size=13,
    )
    chart = pygal.HorizontalBar(
        style=style,
        width=WIDTH,
        height=FRAME_HEIGHT + BAR_HEIGHT * len(rows),
        explicit_size=True,
        title=f"{what + ', ' if what else ''}{unit}: {better} is better\n{below}",
        print_values=True,
        print_values_position="top",
        value_formatter=_figure,
        legend_at_bottom=True,
        show_x_guides=False,
        js=[],
        include_x_axis=True,
    )
    # The first bar is drawn at the bottom.
    rows = rows[::-1]
    chart.x_labels = [row["name"].removesuffix(f": {what}") for row in rows]
    for key, name in SYSTEMS:
        chart.add(name, [row[key] for row in rows])
    svg: str = chart.render(is_unicode=True, disable_xml_declaration=True)
    # Its script shows values under the mouse, but they are printed already.
    return re.sub(r"<script.*?</script>", "", svg, flags=re.DOTALL)


def _figure(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    if value >= 1e4:
        return f"{value / 1e3:,.0f} k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
