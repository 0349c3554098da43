"""Completion: from the tree, and from names that earlier commands left."""

from pathlib import Path

import pytest

from pk.cli.commands.completion import SCRIPTS
from pk.cli.complete import Candidate, answer
from pk.cli.names import recall, remember
from pk.cli.shell.completer import fuzzy
from pk.cli.shell.words import Line, before_cursor, split_line

ROOT = Path(__file__).resolve().parents[2]


def words(*typed: str) -> list[str]:
    return [line.partition("\t")[0] for line in answer(typed).splitlines()]


def test_commands_and_options() -> None:
    assert words("to") == ["topics"]
    assert words("topic", "a") == ["alter", "add-partitions"]
    assert "--replication-factor" in words("topics", "create", "--r")
    assert words("topics", "create", "--if-not-exists", "--if") == []
    assert "--columns" in words("groups", "list", "--")
    assert words("completion", "") == ["bash", "zsh", "fish"]


def test_values_of_options() -> None:
    assert "jsonl" in words("topics", "list", "-f", "j")
    assert words("produce", "t", "--compression=z") == ["--compression=zstd"]
    assert "@-1h..end" in words("consume", "t", "-o", "@-")
    assert words("consume", "t", "--isolation-level", "read_c") == ["read_committed"]
    assert "print.key=" in words("consume", "--property", "print.k")


def test_names_come_from_the_cluster_meant() -> None:
    remember("127.0.0.1:9092", "topic", ["orders", "users"])
    remember("k:1", "topic", ["elsewhere"])
    remember("k:1", "group", ["billing"])
    assert words("topics", "describe", "") == ["orders", "users"]
    assert words("topics", "describe", "-b", "k:1", "") == ["elsewhere"]
    assert words("consume", "-b", "k:1", "-g", "") == ["billing"]
    assert words("-b", "k:1", "configs", "describe", "group", "b") == ["billing"]
    assert recall("nowhere:1", "topic") == []


def test_brokers_partitions_and_one_more_entry_of_a_list() -> None:
    remember("127.0.0.1:9092", "broker", ["1", "2", "3"])
    remember("127.0.0.1:9092", "partition", ["orders/0", "orders/1"])
    assert words("reassign", "pl") == ["plan"]
    assert words("reassign", "plan", "--drain", "") == ["1", "2", "3"]
    assert words("reassign", "plan", "--to", "1,") == ["1,2", "1,3"]
    assert words("reassign", "plan", "--to", "3,1,") == ["3,1,2"]
    assert words("reassign", "cancel", "orders/") == ["orders/0", "orders/1"]
    assert words("partitions", "elect-leaders", "orders/1") == ["orders/1"]
    assert words("brokers", "describe", "") == ["1", "2", "3"]
    assert words("reassign", "plan", "--balance=l") == ["--balance=leaders"]
    assert words("cluster", "features", "up") == ["upgrade"]


def test_a_broken_cache_costs_only_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember("k:1", "topic", ["a"])
    (file,) = (tmp_path / "xdg_cache_home" / "pk").iterdir()
    file.write_bytes(b"\xff{")
    assert recall("k:1", "topic") == []
    remember("k:1", "topic", ["b"])
    assert recall("k:1", "topic") == ["b"]
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    remember("k:1", "topic", ["c"])
    assert recall("k:1", "topic") == []


def test_files_and_directories(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "dump.txt").touch()
    typed = str(tmp_path / "d")
    assert words("up", "--data", typed) == [f"{tmp_path}/data/"]
    assert words("up", "--config-file", typed) == [f"{tmp_path}/data/", f"{tmp_path}/dump.txt"]


def test_words_that_make_no_sense_are_passed_over() -> None:
    assert words("nonsense", "--what", "topics", "li") == ["list"]
    assert words("topics", "list", "-dn") == []


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_scripts_in_the_repository_are_fresh(shell: str) -> None:
    committed = (ROOT / "completions" / f"pk.{shell}").read_text(encoding="utf-8")
    assert committed == SCRIPTS[shell], "run scripts/generate_completions.py"


def test_fuzzy_matches_prefixes_first() -> None:
    found = fuzzy("or", [Candidate(w) for w in ("color", "orders", "o-r", "other", "xyz")])
    assert [c.word for c in found] == ["orders", "color", "o-r", "other"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ([], "")),
        ("topics ", (["topics"], "")),
        ("topics li", (["topics"], "li")),
        ("consume -o '@yester", (["consume", "-o"], "@yester")),
        ("a 'b c' d", (["a", "b c"], "d")),
    ],
)
def test_the_word_under_the_cursor(text: str, expected: tuple[list[str], str]) -> None:
    assert before_cursor(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("topics list", Line(["topics", "list"])),
        ("a --where 'x > 1' > out", Line(["a", "--where", "x > 1"], file="out")),
        ("a >> 'my file'", Line(["a"], file="my file", append=True)),
        ("a | grep x > y", Line(["a"], command="grep x > y")),
        ("a b|c", Line(["a", "b|c"])),
    ],
)
def test_a_line_of_the_shell(text: str, expected: Line) -> None:
    assert split_line(text) == expected
