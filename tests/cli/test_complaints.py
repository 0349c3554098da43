"""`docs/complaints.md` names existing tests. This file tests the complaints that no other test
covers."""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from each import for_each

from pk.cli.cluster.partition_selection import filtered
from pk.cli.nouns.isr.isr import isr_row
from pk.cli.options.option_sets import PartitionFilters
from pk.core.values import TopicPartition
from pk.net.client.results import PartitionDescription

Run = Callable[..., Any]
Fresh = Callable[[str], str]
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "complaints.md").read_text()
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROWS = [
    line
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| Complaint ")
]


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@for_each("row", ROWS, ids=lambda row: row[2:60])
def test_each_complaint_names_tests_that_exist_or_a_reason(row: str) -> None:
    *_, shown, end = re.split(r"(?<!\\)\|", row)
    assert not end.strip()
    found = TEST.findall(shown)
    assert found or shown.strip().startswith("none: "), shown
    for file, name in found:
        assert name in functions(ROOT / file), f"{file} has no {name}"


def test_what_was_said_in_public_can_be_read_there() -> None:
    links = re.findall(r"\]\((https://github\.com/[\w./-]+/(?:issues|pull)/\d+)\)", PAGE)
    assert len(set(links)) > 70
    assert PAGE.count("](") == len(links)


def test_a_pattern_deletes_nothing_unless_it_is_said_to_be_one(at: Run, fresh: Fresh) -> None:
    name = fresh("kept")
    at("topics", "create", name)
    refused = at("topics", "delete", f"{name[:-1]}.*", "-y")
    assert refused.code == 1 and "does not exist" in refused.err
    shown = at("topics", "delete", f"{name[:-1]}[{name[-1]}]", "--regex", "-d", "-f", "name")
    assert shown.text == f"{name}\n"
    within = at("topics", "delete", name[1:], "--regex", "-y")
    assert within.code != 0
    assert at("topics", "list", name, "-f", "name").text == f"{name}\n"


def test_the_lag_of_every_group_that_reads_a_topic(at: Run, fresh: Fresh) -> None:
    topic = fresh("read")
    at("topics", "create", topic)
    at("produce", topic, stdin=b"a\nb\n")
    groups = [fresh("one"), fresh("two")]
    for group, to in zip(groups, ("start", "end"), strict=True):
        at("groups", "reset-offsets", group, "-t", topic, "--to", to, "-y")
    rows = at("groups", "lag", "-t", topic, "--by", "group", "-f", "json").json
    assert {(row["group"], row["lag"]) for row in rows} == {(groups[0], 2), (groups[1], 0)}


def test_every_under_replicated_partition_is_shown() -> None:
    partitions = {
        TopicPartition("wide", i): PartitionDescription(i, 1, 0, (1, 2), (1,)) for i in range(2000)
    }
    found = filtered(partitions, PartitionFilters(under_replicated=True), {})
    assert len(found) == 2000
    tp, p = next(iter(found.items()))
    assert isr_row(tp, p, 5, {1: 5, 2: 3})["out_of_sync"] == [2]


def test_a_group_without_commits_is_not_set_on_every_topic(at: Run, fresh: Fresh) -> None:
    group = fresh("blank")
    ran = at("groups", "reset-offsets", group, "--to", "start", "-y")
    assert ran.code == 1 and "-t TOPIC" in ran.err
    assert at("groups", "list", group, "-f", "name").text == ""


def test_internal_topics_are_shown_when_they_are_asked_for(at: Run, fresh: Fresh) -> None:
    topic = fresh("committed")
    at("topics", "create", topic)
    at("groups", "reset-offsets", fresh("maker"), "-t", topic, "--to", "start", "-y")
    assert "__consumer_offsets" not in at("topics", "list", "-f", "name").text.split()
    assert "__consumer_offsets" in at("topics", "list", "-i", "-f", "name").text.split()
    assert at("topics", "describe", "__consumer_offsets", "-f", "name").code == 0
