"""A position means the same in every command: each form of the grammar, in every command that takes
one.

Commands that show different results have their own column: a copy and an export also have an end,
and files have no commits.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clients.fixtures import Kafka

Run = Callable[..., Any]
Fresh = Callable[[str], str]

NOON_MS = 1_767_268_800_000
COUNTS = (12, 6)
"""The number of records in each partition. They are a minute apart, from noon on. Two of the first
partition are trimmed, and the group has read five."""


@pytest.fixture(scope="module")
def filled() -> dict[str, str]:
    """The topics that all tests share, by the address of the broker."""
    return {}


@pytest.fixture
def topic(at: Run, fresh: Fresh, kafka: Kafka, filled: dict[str, str]) -> str:
    """A topic with offsets 2 to 12 in its first partition and 0 to 6 in its second. The group of
    the same name has committed 5 in the first."""
    if kafka.bootstrap not in filled:
        filled[kafka.bootstrap] = fill(at, fresh("places"))
    return filled[kafka.bootstrap]


@pytest.fixture
def longer(at: Run, fresh: Fresh, kafka: Kafka, filled: dict[str, str]) -> str:
    """Another like it, with a record of now behind the others of its second partition: a batch of
    its own."""
    key = f"longer on {kafka.bootstrap}"
    if key not in filled:
        name = filled[key] = fill(at, fresh("longer"))
        assert at("produce", name, "-p", "1", "one more").code == 0
    return filled[key]


def fill(at: Run, name: str) -> str:
    rows = [
        {"partition": p, "value": str(i), "timestamp": NOON_MS + i * 60_000}
        for p, count in enumerate(COUNTS)
        for i in range(count)
    ]
    at(
        "topics", "create", name, "-p", "2", "-c", "retention.ms=-1"
    )  # they are long past their time
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    assert at("produce", name, "-f", "jsonl", "--keep-partition", stdin=lines).code == 0
    assert at("topics", "trim", name, "-o", "0=2", "-y").code == 0
    assert at("groups", "reset-offsets", name, "-t", f"{name}:0", "--to", "5", "-y").code == 0
    return name


POSITIONS = {
    "start": [2, 0],
    "end": [12, 6],
    "4": [4, 4],
    "-3": [9, 3],
    "+3": [5, 3],
    f"@{NOON_MS + 240_000}": [4, 4],
    f"@{NOON_MS // 1000 + 210}": [4, 4],
    "0=7": [7],
    "0=-3,1=+1": [9, 1],
    "4..": [4, 4],
}
"""Each form, and the offset that it resolves to in both partitions."""

SHOWN = {
    "topics offsets": ("topics offsets T -o {}", "begin"),
    "groups reset-offsets": ("groups reset-offsets T -t T --to {} -d", "target"),
    "topics trim": ("topics trim T -o {} -d", "target"),
    "cp": ("cp T T-copy --create --once -o {} -d", "from"),
    "spark export": ("spark export T --to {out} -o {} -d", "begin"),
    "spark-export": ("spark-export T --to {out} -o {} -d", "begin"),
}
"""Commands that show the offset of a position, and the column that has it."""


def shown(at: Run, topic: str, words: str, position: str) -> Any:
    line = [word.replace("T", topic) if word[0] == "T" else word for word in words.split()]
    return at(*(position if word == "{}" else word for word in line), "-f", "json")


@pytest.mark.parametrize("command", SHOWN)
def test_a_position_is_the_same_place_in_every_command(
    at: Run, topic: str, command: str, tmp_path: Path
) -> None:
    words, column = SHOWN[command]
    words = words.replace("{out}", str(tmp_path / "out"))
    for position, expected in POSITIONS.items():
        ran = shown(at, topic, words, position)
        assert ran.code == 0, ran.err
        rows = [row for row in ran.json if row[column] is not None]
        assert [row[column] for row in rows][: len(expected)] == expected, (position, ran.text)


@pytest.mark.parametrize(
    ("position", "expected"), [("committed", 5), ("committed-2", 3), ("committed+3", 8)]
)
def test_committed_is_what_the_group_has_committed(
    at: Run, topic: str, tmp_path: Path, position: str, expected: int
) -> None:
    lines = {
        "topics offsets": ("topics offsets T -g T -o {}", None),
        "topics trim": ("topics trim T -g T -o {} -d", 0),
        "cp": ("cp T T-copy --create --once -g T -o {} -d", 6),
        "spark export": (f"spark export T --to {tmp_path}/out -g T -o {{}} -d", 6),
        "spark-export": (f"spark-export T --to {tmp_path}/out -g T -o {{}} -d", 6),
        "groups reset-offsets": ("groups reset-offsets T --to {} -d", None),
    }
    for command, (words, uncommitted) in lines.items():
        ran = shown(at, topic, words, position)
        assert ran.code == 0, ran.err
        rows = [row[SHOWN[command][1]] for row in ran.json]
        assert rows[0] == expected, (command, ran.text)
        assert rows[1:] in ([], [uncommitted]), (command, ran.text)
    read = at("consume", topic, "-e", "-g", topic, "-o", position, "-f", "%p@%o\\n")
    assert read.lines[0] == f"0@{expected}"
    assert f"has no commit in {topic}/1" in read.err


def test_a_group_without_commits_is_named(at: Run, topic: str) -> None:
    for words in (("topics", "trim", topic, "-d"), ("consume", topic, "-e")):
        ran = at(*words, "-g", "nobody-here", "-o", "committed")
        assert ran.code == 1 and not ran.out
        assert "Group nobody-here has no committed offsets" in ran.err
    lone = at("topics", "offsets", topic, "-g", topic)
    assert (lone.code, "needs -o committed" in lone.err) == (2, True)


RANGES = {
    "start..end": [10, 6],
    "-3..end": [3, 3],
    "3..5": [2, 2],
    "3:5": [2, 2],
    "..4": [2, 4],
    f"@{NOON_MS + 240_000}..@{NOON_MS + 420_000}": [3, 2],
    "0=5..7,1=..2": [2, 2],
    "0=-2..5,1=1..2": [0, 1],
}
"""Ranges, and the number of records of each partition in them."""

FROM_THE_START = ("start..end", "..4")
"""Ranges that differ in files: files learn of a trim with the broker's next checkpoint."""


def test_a_range_holds_the_same_records_for_every_reader(
    at: Run, topic: str, kafka: Kafka, tmp_path: Path
) -> None:
    files = [str(kafka.log_dir / f"{topic}-{p}") for p in range(2)]
    readers = {
        "consume": ("consume", topic, "-f", "%p\\n"),
        "log cat": ("log", "cat", *files, "-f", "%p\\n"),
        "log dump": ("log", "dump", *files, "--records", "-f", "{partition}\\n"),
    }
    for position, expected in RANGES.items():
        for name, words in readers.items():
            if name != "consume" and position in FROM_THE_START:
                continue
            ran = at(*words, "-o", position)
            assert ran.code == 0, ran.err
            found = [ran.lines.count(str(p)) for p in range(2)]
            assert found == expected, (name, position, ran.text)
            wrong_way = f"{topic}/0: the range ends at 5, before it begins at 10"
            assert (wrong_way in ran.err) == position.startswith("0=-2"), (name, ran.err)
        for words in (("cp", topic, f"{topic}-copy", "--create"), ("spark-export", topic)):
            to = ("--to", str(tmp_path / "out")) if words[0] == "spark-export" else ()
            ran = at(*words, *to, "-o", position, "-d", "-f", "json")
            assert [row["offsets"] for row in ran.json] == expected, (words, position)


UNKNOWN = {
    "topics offsets": "topics offsets T -o {}",
    "topics trim": "topics trim T -o {} -y",
    "groups reset-offsets": "groups reset-offsets T -t T --to {} -y",
    "consume": "consume T -e -o {}",
    "cp": "cp T T-copy --create --once -o {} -y",
    "spark export": "spark-export T --to {out} -o {} -d",
    "spark-export": "spark-export T --to {out} -o {} -d",
    "log cat": "log cat {files} -o {}",
    "log dump": "log dump {files} -o {}",
}


@pytest.mark.parametrize("position", ["7=1", "0=5,7=1"])
@pytest.mark.parametrize("command", UNKNOWN)
def test_a_position_of_a_partition_that_does_not_exist_is_an_error(
    at: Run, topic: str, kafka: Kafka, command: str, position: str, tmp_path: Path
) -> None:
    files = [str(kafka.log_dir / f"{topic}-{p}") for p in range(2)]
    held = at("topics", "offsets", topic, "-f", "json").json
    committed = at("groups", "reset-offsets", topic, "--to-current", "-d", "-f", "json").json
    words: list[str] = []
    for word in UNKNOWN[command].split():
        given = {"{}": [position], "{files}": files, "{out}": [str(tmp_path / "out")]}
        words += given.get(word, [word.replace("T", topic) if word[0] == "T" else word])
    ran = at(*words)
    assert ran.code == 1, ran.text
    offline = command.startswith("log")
    said = (
        "do not contain partition 7, only"
        if offline
        else f"Topic {topic} has no partition 7; it has 2"
    )
    assert said in ran.err
    assert not ran.out
    assert at("topics", "offsets", topic, "-f", "json").json == held
    kept = at("groups", "reset-offsets", topic, "--to-current", "-d", "-f", "json").json
    assert kept == committed


@pytest.mark.parametrize(
    "words",
    [
        "topics offsets T -p 0 -o 0=5,1=1",
        "topics trim T -p 0 -o 0=5,1=1 -y",
        "topics trim T:0 -o 0=5,1=1 -y",
        "groups reset-offsets T -t T:0 --to 0=5,1=1 -y",
        "consume T -e -p 0 -o 0=5,1=1",
        "cp T T-copy --create --once -p 0 -o 0=5,1=1 -y",
    ],
)
def test_a_position_of_a_partition_that_is_not_selected_is_an_error(
    at: Run, topic: str, words: str
) -> None:
    ran = at(*(w.replace("T", topic) if w[0] == "T" else w for w in words.split()))
    assert ran.code == 2, ran.text
    assert "The position of partition 1 has no effect: only partition 0 is selected." in ran.err


def test_a_position_of_a_partition_without_a_commit_is_an_error(at: Run, topic: str) -> None:
    ran = at("groups", "reset-offsets", topic, "--to", "0=5,1=1", "-y")
    assert ran.code == 1, ran.text
    assert (
        f"Group {topic} has no committed offset for a partition 1, only for {topic}/0; -t"
        in ran.err
    )


def test_batches_of_a_log_are_chosen_by_position(at: Run, longer: str, kafka: Kafka) -> None:
    words = ("log", "dump", str(kafka.log_dir / f"{longer}-1"), "-f", "{last_offset} ")
    assert at(*words).text.split() == ["5", "6"]
    assert at(*words, "-o", "end").text == ""
    assert at(*words, "-o", "-1").text.split() == ["6"]
    assert at(*words, "-o", "2..4").text.split() == ["5"]
    for more, said in (("--show", "index"), "-o selects batches"), (("--records",), ""):
        ran = at("log", "dump", str(kafka.log_dir / f"{longer}-1"), *more, "-o", "3..4")
        assert (ran.code, said in ran.err) == (2 if said else 0, True)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("earliest", [2, 0]),
        ("-2", [2, 0]),
        ("latest", [12, 7]),
        ("-1", [12, 7]),
        ("max-timestamp", [11, 6]),
        ("-3", [11, 6]),
        (str(NOON_MS + 240_000), [4, 4]),
        ("9999999999999", [None, None]),
    ],
)
def test_a_time_is_what_it_is_to_apache_s_tool(
    at: Run, longer: str, time: str, expected: list[int | None]
) -> None:
    ran = at("topics", "offsets", longer, "--time", time, "-f", "json")
    assert ran.code == 0, ran.err
    assert [row["begin"] for row in ran.json] == expected


def test_a_time_that_is_none_is_said(at: Run) -> None:
    for words, said in (
        (("--time", "@-1h"), "-o takes every position"),
        (("--time", "-7"), "-1 to -6"),
    ):
        ran = at("topics", "offsets", "any", *words)
        assert (ran.code, said in ran.err) == (2, True)
    ran = at("topics", "offsets", "any", "--time", "1", "-o", "1")
    assert (ran.code, "use only one" in ran.err) == (2, True)
