"""Groups against a live broker: lag, members, and the resetting of offsets with its preview, guard and undo."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clients.fixtures import Kafka

Run = Callable[..., Any]
Fresh = Callable[[str], str]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def topic(at: Run, fresh: Fresh) -> str:
    """A topic of two partitions: 0 holds ten records, a second apart from 1,000,000,000; 1 holds four."""
    name = fresh("reset")
    at("topics", "create", name, "-p", "2")
    lines = "\n".join(f"{1_000_000_000_000 + i * 1000} {i}" for i in range(10))
    at("produce", name, "-p", "0", "-f", "%T %v", stdin=lines.encode())
    at("produce", name, "-p", "1", stdin=b"a\nb\nc\nd\n")
    return name


def committed(at: Run, group: str) -> dict[tuple[str, int], int | None]:
    (found,) = at("groups", "describe", group, "-f", "json").json
    return {(o["topic"], o["partition"]): o["committed"] for o in found["offsets"]}


def test_lag_and_state(at: Run, fresh: Fresh, topic: str) -> None:
    group = fresh("lag")
    assert at("groups", "reset-offsets", group, "-t", topic, "--to", "start", "-y").code == 0
    read = at("consume", topic, "-g", group, "-n", "3", "--timeout-ms", "20000")
    assert (read.code, len(read.lines)) == (0, 3)
    (found,) = at("groups", "describe", group, "-f", "json").json
    assert (found["group"], found["state"], found["members"], found["lag"]) == (
        group,
        "Empty",
        [],
        11,
    )
    rows = at(
        "groups", "describe", group, "--where", "lag > 0", "--sort", "-lag", "-f", "json"
    ).json
    assert [r["lag"] for r in rows] == sorted((r["lag"] for r in rows), reverse=True)
    (state,) = at("groups", "describe", group, "--state", "-f", "json").json
    assert (state["members"], state["partitions"], state["lag"]) == (0, 2, 11)
    assert group in at("groups", "list", "--state", "Empty", "-f", "name").text.split()


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("--to", "start"), (0, 0)),
        (("--to-earliest",), (0, 0)),
        (("--to", "end"), (10, 4)),
        (("--to-latest",), (10, 4)),
        (("--to", "3"), (3, 3)),
        (("--to-offset", "3"), (3, 3)),
        (("--to", "7"), (7, 4)),
        (("--to", "-2"), (8, 2)),
        (("--to", "+1"), (1, 1)),
        (("--to", "committed-2"), (3, 0)),
        (("--shift-by", "-2"), (3, 0)),
        (("--shift-by", "100"), (10, 4)),
        (("--to-current",), (5, 2)),
        (("--to", "@1000000004"), (4, 0)),
        (("--to-datetime", "2001-09-09T01:46:44.000"), (4, 0)),
        (("--to-datetime", "2001-09-09T03:46:44.000+02:00"), (4, 0)),
        (("--to", "@tomorrow"), (10, 4)),
        (("--by-duration", "PT1H"), (10, 0)),
        (("--to", "0=9"), (9, 2)),
    ],
)
def test_where_offsets_go(
    at: Run, fresh: Fresh, topic: str, target: tuple[str, ...], expected: tuple[int, int]
) -> None:
    group = fresh("where")
    assert at("groups", "reset-offsets", group, "-t", topic, "--to", "0=5,1=2", "-y").code == 0
    moved = at("groups", "reset-offsets", group, *target, "-y", "-f", "json")
    assert moved.code == 0, moved.err
    assert committed(at, group) == {(topic, 0): expected[0], (topic, 1): expected[1]}
    assert all(row["target"] >= 0 for row in moved.json)


def test_a_preview_says_what_would_happen_and_does_nothing(
    at: Run, fresh: Fresh, topic: str
) -> None:
    group = fresh("preview")
    at("groups", "reset-offsets", group, "-t", f"{topic}:0", "--to", "5", "-y")
    plan = at("groups", "reset-offsets", group, "-t", topic, "--to", "7", "--dry-run", "-f", "json")
    assert plan.code == 0
    first, second = plan.json
    assert {k: first[k] for k in ("committed", "target", "delta", "effect", "note")} == {
        "committed": 5,
        "target": 7,
        "delta": 2,
        "effect": "skip",
        "note": None,
    }
    assert first["target_time"].startswith("2001-09-09")
    assert (second["committed"], second["target"], second["note"]) == (
        None,
        4,
        "7 is past the end: clamped",
    )
    assert "skips 2 records" in plan.err and "nothing was changed" in plan.err
    assert committed(at, group) == {(topic, 0): 5}


def test_a_reset_is_refused_without_an_answer_and_can_be_undone(
    at: Run, fresh: Fresh, topic: str
) -> None:
    group = fresh("undo")
    at("groups", "reset-offsets", group, "-t", topic, "--to", "0=5,1=2", "-y")
    refused = at("groups", "reset-offsets", group, "--to", "start")
    assert (refused.code, "re-reads 7 records" in refused.err) == (5, True)
    assert committed(at, group) == {(topic, 0): 5, (topic, 1): 2}
    done = at("groups", "reset-offsets", group, "--to", "start", "-y")
    undo = re.search(r"pk (undo \d+)", done.err)
    assert undo is not None
    assert committed(at, group) == {(topic, 0): 0, (topic, 1): 0}
    assert at(*undo[1].split(), "-y").code == 0
    assert committed(at, group) == {(topic, 0): 5, (topic, 1): 2}


def test_export_is_apache_s_csv_and_comes_back(
    at: Run, fresh: Fresh, topic: str, tmp_path: Path
) -> None:
    group = fresh("export")
    plan = at("groups", "reset-offsets", group, "-t", topic, "--to", "-1", "--export")
    assert plan.text == f"{topic},0,9\n{topic},1,3\n"
    assert at("groups", "list", group, "-f", "name").text == ""
    file = tmp_path / "plan.csv"
    file.write_bytes(plan.out)
    assert at("groups", "reset-offsets", group, "--from-file", str(file), "-y").code == 0
    assert committed(at, group) == {(topic, 0): 9, (topic, 1): 3}
    file.write_text("a,b\n")
    wrong = at("groups", "reset-offsets", group, "--from-file", str(file), "-y")
    assert (wrong.code, "line 1" in wrong.err) == (2, True)


@pytest.fixture
def member(
    kafka: Kafka, at: Run, fresh: Fresh, topic: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A group with a member that has read something: its name and its process."""
    group = fresh("active")
    paths = os.pathsep.join((str(ROOT / "scripts" / "path"), os.environ.get("PYTHONPATH", "")))
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pk.cli.main",
            "consume",
            topic,
            "-b",
            kafka.bootstrap,
            "-g",
            group,
            "--from-beginning",
        ],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    yield group, process
    process.terminate()
    process.wait()
    process.stdout.close()


def test_an_active_group_is_not_reset_and_its_members_are_named(
    at: Run, topic: str, member: tuple[str, subprocess.Popen[bytes]]
) -> None:
    group, process = member
    (shown,) = at("groups", "describe", group, "-m", "-f", "json").json
    assert shown["partitions"] == 2
    assert {a["topic"] for a in shown["assignment"]} == {topic}
    refused = at("groups", "reset-offsets", group, "-t", topic, "--to", "start", "-y")
    assert (refused.code, shown["member_id"] in refused.err) == (5, True)
    assert at("groups", "reset-offsets", group, "-t", topic, "--to", "start", "--dry-run").code == 0
    assert at("groups", "delete", group, "-y").code == 5
    process.send_signal(2)
    assert process.wait(10) == 130
    (found,) = at("groups", "describe", group, "-f", "json").json
    assert (found["state"], found["lag"]) == ("Empty", 0)  # what was shown is committed


def test_groups_and_their_offsets_are_deleted(at: Run, fresh: Fresh, topic: str) -> None:
    group = fresh("gone")
    at("groups", "reset-offsets", group, "-t", topic, "--to", "end", "-y")
    assert at("groups", "delete-offsets", group, "-t", f"{topic}:1").code == 5
    assert at("groups", "delete-offsets", group, "-t", f"{topic}:1", "-y").code == 0
    assert committed(at, group) == {(topic, 0): 10}
    assert at("groups", "delete", group, "-d").code == 0
    assert at("groups", "delete", group, "-y", "-f", "json").json == [
        {"group": group, "offsets": 1, "result": "deleted", "error": None}
    ]
    missing = at("groups", "describe", group)
    assert (missing.code, "no group" in missing.err) == (1, True)


def test_commits_are_read_from_without_joining(at: Run, fresh: Fresh, topic: str) -> None:
    group = fresh("peek")
    at("groups", "reset-offsets", group, "-t", topic, "--to", "0=8,1=4", "-y")
    assert at("consume", topic, "-g", group, "-o", "committed..end").text == "8\n9\n"
    before = at("consume", topic, "-g", group, "-o", "committed-1..committed")
    assert sorted(before.lines) == ["7", "d"]
    assert committed(at, group) == {(topic, 0): 8, (topic, 1): 4}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Say once"),
        (("--to", "start", "--to-latest"), "not --to and --to-latest"),
        (("--to", "1..2"), "not the range"),
        (("--to-datetime", "yesterday"), "--to-datetime"),
        (("--by-duration", "1h"), "--by-duration"),
        (("--to-offset", "-5"), "from 0 on"),
        (("--to", "start", "--all-topics", "-t", "x"), "not both"),
    ],
)
def test_a_target_is_said_once_and_right(at: Run, words: tuple[str, ...], said: str) -> None:
    wrong = at("groups", "reset-offsets", "g", *words)
    assert (wrong.code, said in wrong.err) == (2, True), wrong.err
