"""Runs the scenarios of clients against a broker, and says of each what came of it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, NotRequired, TypedDict

from clients.fixtures import Kafka, fresh_name
from compatibility.clients import Client, Command, MissingError
from compatibility.scenarios import SCENARIOS, Case, Scenario

SCENARIO_S: Final = 240.0
REASON_MAX: Final = 300

Outcome = Literal["passed", "failed", "cannot"]
"""`cannot`: the client has nothing of the kind."""


class Answer(TypedDict):
    """The result of one scenario."""

    outcome: Outcome
    why: str
    """Empty if it passed."""

    apache: NotRequired[Outcome]
    """The result on Apache Kafka, if it failed on pk."""


class Row(TypedDict):
    """The results of one client."""

    client: str
    title: str
    language: str
    version: str
    missing: str
    """Why it did not run at all, or empty."""

    answers: dict[str, Answer]
    """Answers by scenario."""


def run_scenario(kafka: Kafka, client: Client, command: Command, scenario: Scenario) -> Answer:
    """Prepare, run the program, check."""
    if scenario.name in client.cannot:
        return {"outcome": "cannot", "why": client.cannot[scenario.name]}
    topic = fresh_name(f"{client.name}-{scenario.name}")
    case = Case(kafka, topic, scenario.word, client.sets_times)
    scenario.prepare(case)
    words = [*command, scenario.action, kafka.bootstrap, topic]
    words += [scenario.word] if scenario.word else []
    try:
        ran = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SCENARIO_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"outcome": "failed", "why": f"not done within {SCENARIO_S:.0f} s"}
    if ran.returncode:
        return {"outcome": "failed", "why": last_words(ran.stdout)}
    try:
        scenario.check(case)
    except AssertionError as error:
        return {"outcome": "failed", "why": last_words(str(error))}
    return {"outcome": "passed", "why": ""}


def last_words(text: str) -> str:
    """The last line that is not empty, cut."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines or ["it said nothing"])[-1][:REASON_MAX]


def run_client(
    kafka: Kafka,
    client: Client,
    builds: Path,
    tell: Callable[[str], None],
    scenarios: Sequence[Scenario] = SCENARIOS,
) -> Row:
    """All scenarios of one client; those that it fails are named, not raised."""
    row: Row = {
        "client": client.name,
        "title": client.title,
        "language": client.language,
        "version": "",
        "missing": "",
        "answers": {},
    }
    try:
        row["version"] = client.version()
        command = client.command(builds)
    except MissingError as error:
        row["missing"] = str(error)
        tell(f"{client.name}: missing: {error}")
        return row
    for scenario in scenarios:
        answer = run_scenario(kafka, client, command, scenario)
        row["answers"][scenario.name] = answer
        tell(f"{client.name}: {scenario.name}: {answer['outcome']} {answer['why']}".rstrip())
    return row
