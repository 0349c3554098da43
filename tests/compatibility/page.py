"""docs/compatibility.md, from results that are kept beside this file as JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypedDict, TypeVar

from compatibility.clients import CLIENTS
from compatibility.frameworks import FRAMEWORKS, Shown
from compatibility.run import Answer, Row
from compatibility.scenarios import SCENARIOS

RESULTS: Final = Path(__file__).with_name("results.json")
PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
MARKS: Final = {"passed": "yes", "failed": "**no**", "cannot": "–"}

__all__ = ["PAGE", "RESULTS", "Answer", "Results", "load", "merged", "nothing", "page", "store"]

TEXT: Final = """\
# Compatibility

This page lists third-party clients and frameworks that work with pk. They run unchanged, without
settings for pk. `scripts/compatibility` runs them and writes this page. `scripts/compatibility
--only sarama` repeats one row, and `--broker apache` runs the same on Apache Kafka. The last run
was on {day}.

## Clients

{clients}

*yes* means that the client passed, and *–* that it does not have the feature. The columns show
these tests:

- *records* and the codecs: the client writes keys, values, headers, times and tombstones,
  compressed, and reads them back.
- *group* and *KIP-848 group*: three members join and leave, and partitions move. The third member
  starts at the offsets that the group has committed.
- *transactions*: the client aborts one transaction and commits another; read_committed shows
  only the latter.
- *admin*: the client creates, describes, configures and deletes topics.

The client checks the records that it reads. Then librdkafka checks the records on the broker, and
the batches in the broker's files must have the codec. `tests/compatibility/scenarios.py` has the
details.

## Frameworks

{frameworks}

## Features that are missing, failed or not run

{reasons}
"""


class Results(TypedDict):
    """The page's data."""

    day: str
    """The day of the last run, as YYYY-MM-DD."""

    python: str
    clients: list[Row]
    frameworks: list[Shown]


def nothing() -> Results:
    """No results yet."""
    return {"day": "", "python": "", "clients": [], "frameworks": []}


def load() -> Results:
    """The results that are kept."""
    loaded: Results = json.loads(RESULTS.read_text())
    return loaded


T = TypeVar("T", Row, Shown)


def _updated(names: Iterable[str], key: str, old: Sequence[T], new: Sequence[T]) -> list[T]:
    rows = {str(row.get(key)): row for row in (*old, *new)}
    return [rows[name] for name in names if name in rows]


def merged(results: Results, rows: Sequence[Row], frameworks: Sequence[Shown]) -> Results:
    """The results with some rows replaced, in the tables' order."""
    clients = [client.name for client in CLIENTS]
    names = [framework.name for framework in FRAMEWORKS]
    return {
        "day": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "clients": _updated(clients, "client", results["clients"], rows),
        "frameworks": _updated(names, "name", results["frameworks"], frameworks),
    }


def store(results: Results) -> None:
    """Keep the results, and write the page."""
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(results))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return [f"| {' | '.join(line)} |" for line in cells]


def _reasons(rows: Sequence[Row]) -> list[str]:
    lines = list[str]()
    for row in rows:
        if row["missing"]:
            lines.append(f"- {row['title']} did not run: {row['missing']}.")
        grouped = dict[str, list[str]]()
        for scenario in SCENARIOS:
            answer = row["answers"].get(scenario.name)
            if answer is None or answer["outcome"] == "passed":
                continue
            why = answer["why"]
            if answer["outcome"] == "failed":
                why = f"`{why}`{_there(answer)}"
            grouped.setdefault(why, []).append(scenario.title)
        lines += [f"- {row['title']}, {', '.join(names)}: {why}." for why, names in grouped.items()]
    return lines


def _there(answer: Answer) -> str:
    match answer.get("apache"):
        case "failed":
            return " (it fails on Apache Kafka too)"
        case "passed":
            return " (it passes on Apache Kafka: this is a bug in pk)"
        case _:
            return ""


def page(results: Results) -> str:
    """The page's text."""
    head = ["client", "version", *(scenario.title for scenario in SCENARIOS)]
    clients = list[list[str]]()
    for row in results["clients"]:
        answers = (row["answers"].get(scenario.name) for scenario in SCENARIOS)
        marks = [MARKS[answer["outcome"]] if answer else "not run" for answer in answers]
        clients.append([f"{row['title']} ({row['language']})", row["version"], *marks])
    shown = {
        each["name"]: (each["version"], f"{each['outcome']}: {each['counts']}".removesuffix(": "))
        for each in results["frameworks"]
    }
    frameworks = list[list[str]]()
    for each in FRAMEWORKS:
        version, outcome = shown.get(each.name, (each.version, "not run"))
        frameworks.append([each.title, version, each.what, outcome])
    reasons = _reasons(results["clients"])
    reasons += [
        f"- {each['title']}: {each['why']}." for each in results["frameworks"] if each["why"]
    ]
    return TEXT.format(
        day=results["day"],
        clients="\n".join(_table(head, clients)),
        frameworks="\n".join(_table(["framework", "version", "scenario", "outcome"], frameworks)),
        reasons="\n".join(reasons or ["Everything passed."]),
    )
