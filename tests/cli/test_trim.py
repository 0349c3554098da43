"""`pk topics trim`, and its warnings before records are lost."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Fresh = Callable[[str], str]


@pytest.fixture
def topic(at: Run, fresh: Fresh) -> str:
    """A topic of two partitions with 30 records in the first and 10 in the second."""
    name = fresh("trim")
    at("topics", "create", name, "-p", "2")
    for partition, records in (("0", 30), ("1", 10)):
        text = "".join(f"{n}\n" for n in range(records)).encode()
        assert at("produce", name, "-p", partition, stdin=text).code == 0
    return name


def starts(at: Run, topic: str) -> list[int]:
    return [row["start"] for row in at("topics", "offsets", topic, "-f", "json").json]


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (("-o", "5"), [5, 5]),
        (("-o", "-4"), [26, 6]),
        (("-o", "+3", "-p", "0"), [3, 0]),
        (("-o", "0=7,1=2"), [7, 2]),
        (("-o", "end"), [30, 10]),
        (("-o", "20"), [20, 10]),
        (("-o", "@now"), [30, 10]),
    ],
)
def test_what_is_before_a_position_goes(
    at: Run, topic: str, words: tuple[str, ...], left: list[int]
) -> None:
    ran = at("topics", "trim", topic, *words, "-d")
    assert ran.code == 0 and "would be trimmed" in ran.text
    assert starts(at, topic) == [0, 0]
    assert at("topics", "trim", topic, *words).code == 5
    assert starts(at, topic) == [0, 0]
    assert at("topics", "trim", topic, *words, "-y").code == 0
    assert starts(at, topic) == left


def test_it_says_what_is_lost_and_whose(at: Run, topic: str) -> None:
    at("groups", "reset-offsets", f"{topic}-g", "-t", topic, "--to", "start", "-y")
    ran = at("topics", "trim", f"{topic}:0", "-o", "12")
    assert f"{topic}/0: 0 → 12 of 30" in ran.err
    assert "This deletes up to 12 records" in ran.err and "this cannot be undone" in ran.err
    assert f"Group {topic}-g has commits there" in ran.err
    ran = at("topics", "delete", topic)
    assert ran.code == 5
    assert "1 topic with 2 partitions and up to 40 records" in ran.err
    assert f"Group {topic}-g has commits there" in ran.err


def test_apache_s_file_is_read(at: Run, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    partitions = [
        {"topic": topic, "partition": 0, "offset": 9},
        {"topic": topic, "partition": 1, "offset": -1},
    ]
    file.write_text(json.dumps({"partitions": partitions, "version": 1}))
    ran = at("topics", "trim", "--offset-json-file", str(file), "-y", "-f", "json")
    assert [(row["records"], row["result"]) for row in ran.json] == [
        (9, "trimmed"),
        (10, "trimmed"),
    ]
    assert starts(at, topic) == [9, 10]
    # A negative offset in the file does not count from the end, unlike -o -5 on the command line.
    file.write_text(json.dumps({"partitions": [{**partitions[0], "offset": -5}], "version": 1}))
    ran = at("topics", "trim", "--offset-json-file", str(file), "-y")
    assert (ran.code, "cannot have offset -5" in ran.err, starts(at, topic)) == (2, True, [9, 10])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "0..5"), "one position"),
        ((), "Give the first offset to keep"),
        (("-o", "5", "-p", "7"), "has no partition 7"),
        (("--offset-json-file", "nowhere.json"), "no other selection can be combined"),
    ],
)
def test_what_makes_no_sense_is_refused(
    at: Run, topic: str, words: tuple[str, ...], said: str
) -> None:
    ran = at("topics", "trim", topic, *words, "-y")
    assert ran.code in (1, 2)
    assert said in ran.err
    assert starts(at, topic) == [0, 0]
