"""docs/compatibility.md is what its results say, leaves no client out, and gives each reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from clients.fixtures import Kafka
from compatibility.clients import CLIENTS, Client, MissingError
from compatibility.frameworks import FRAMEWORKS, judged
from compatibility.page import PAGE, load, merged, nothing, page
from compatibility.run import last_words, run_client
from compatibility.scenarios import SCENARIOS

NOWHERE = Kafka("pk", "127.0.0.1:1", Path())
ADMIN = [scenario for scenario in SCENARIOS if scenario.name == "admin"]


def client(*command: str, missing: str = "") -> Client:
    def built(_: Path) -> tuple[str, ...]:
        if missing:
            raise MissingError(missing)
        return command

    return Client(CLIENTS[0].name, "A client", "C", lambda: "1.0", built, {})


def test_the_page_is_that_of_its_results() -> None:
    assert PAGE.read_text() == page(load())


def test_no_row_is_left_out() -> None:
    results = load()
    assert [row["client"] for row in results["clients"]] == [client.name for client in CLIENTS]
    assert [row["name"] for row in results["frameworks"]] == [each.name for each in FRAMEWORKS]
    text = PAGE.read_text()
    # Not those that are installed here: the page tells of the run that its results are of.
    versions = [f"| {row['title']} | {row['version']} |" for row in results["frameworks"]]
    assert all(version in text for version in versions)


def test_every_client_has_an_answer_for_every_scenario_or_a_reason() -> None:
    for row in load()["clients"]:
        answered = {name for name, answer in row["answers"].items() if answer["outcome"]}
        assert row["missing"] or answered == {scenario.name for scenario in SCENARIOS}, row


def test_a_failure_is_shown_with_the_programs_last_words(tmp_path: Path) -> None:
    failing = client("sh", "-c", "echo started; echo it broke; echo; exit 3")
    row = run_client(NOWHERE, failing, tmp_path, lambda _: None, ADMIN)
    assert row["answers"] == {"admin": {"outcome": "failed", "why": "it broke"}}
    text = page(merged(nothing(), [row], []))
    assert "- A client, admin: `it broke`." in text
    assert "| **no** |" in text
    row["answers"]["admin"]["apache"] = "failed"
    assert "`it broke` (it fails on Apache Kafka too)." in page(merged(nothing(), [row], []))


def test_a_missing_tool_is_named(tmp_path: Path) -> None:
    row = run_client(NOWHERE, client(missing="go is not installed"), tmp_path, lambda _: None)
    assert row["answers"] == {}
    assert "- A client did not run: go is not installed." in page(merged(nothing(), [row], []))


def test_a_run_of_one_client_keeps_the_other_rows() -> None:
    before = load()
    again = merged(before, [before["clients"][1]], [])
    assert again["clients"] == before["clients"]
    assert again["frameworks"] == before["frameworks"]


@pytest.mark.parametrize(
    "cases, outcome, counts, why",
    [
        ('<testcase name="a"/><testcase name="b"/>', "passed", "2 passed", ""),
        (
            '<testcase name="a"/><testcase name="b"><failure message="lost one"/></testcase>',
            "failed",
            "1 passed, 1 failed",
            "b: lost one",
        ),
        (
            '<testcase name="a"><skipped message="no java"/></testcase>',
            "missing",
            "1 skipped",
            "a: no java",
        ),
        ("", "failed", "", ""),
    ],
)
def test_what_a_framework_shows(cases: str, outcome: str, counts: str, why: str) -> None:
    shown = judged(FRAMEWORKS[0], f"<testsuites><testsuite>{cases}</testsuite></testsuites>", "")
    assert (shown["outcome"], shown["counts"], shown["why"]) == (outcome, counts, why)


def test_tests_that_did_not_start_are_a_failure() -> None:
    shown = judged(FRAMEWORKS[0], "", "usage: no such option")
    assert (shown["outcome"], shown["why"]) == ("failed", "usage: no such option")


def test_the_last_words_are_cut() -> None:
    assert last_words("first\n" + "x" * 400 + "\n\n") == "x" * 300
    assert last_words("") == "it said nothing"
