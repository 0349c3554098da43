"""Help, the command reference and the man pages are complete and name only existing commands."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from pk.cli.command_line.error_help import error_help
from pk.cli.command_line.help import help_text, option_help, option_names
from pk.cli.command_line.manual import man_pages, reference
from pk.cli.command_line.nouns import SECTIONS
from pk.cli.command_line.pages import PAGES, folded, page
from pk.cli.command_line.parse import parse
from pk.cli.command_line.schema import columns_of
from pk.cli.command_line.tree import Command, commands, tree
from pk.cli.exits import UsageError
from pk.cli.shell.words import split_line
from pk.core.errors import ErrorCode

Run = Callable[..., Any]
DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_error_is_explained() -> None:
    found = error_help()
    assert [e.code for e in found] == sorted(int(code) for code in ErrorCode)
    assert all(e.meaning.endswith(".") and e.step[-1] in ".?" for e in found)


def check_commands(lines: Iterable[str]) -> None:
    """Checks that each is a valid command line. It may lack required arguments."""
    for line in lines:
        try:
            parse(split_line(line).words)
        except UsageError as e:
            assert "needs" in str(e), f"pk {line}: {e}"


def test_commands_named_in_errors_and_pages_are_there() -> None:
    texts = [e.step for e in error_help()] + [page(name) for name in PAGES if name != "configs"]
    named = [words for text in texts for words in re.findall(r"`pk ([^`]+)`", text)]
    assert len(named) > 40
    check_commands(named)


def test_commands_shown_in_the_documents_are_there() -> None:
    shown = []
    for path in (DOCS.parent / "README.md", *DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        shown += re.findall(r"`pk ([^`\n]+)`", text)
        lines = re.findall(r"^ *\$ pk ([^\n]+)$", text, re.MULTILINE)
        shown += [re.split(r" {3,}", line)[0] for line in lines]  # an explanation follows it
    assert len(shown) > 150
    check_commands(line.replace("< ", "| ") for line in shown if not re.search(r"…|\\\|", line))


def test_conditions_shown_in_the_tour_are_about_columns_of_that_list() -> None:
    text = (DOCS / "tour.md").read_text(encoding="utf-8")
    shown = re.findall(r"`(?:pk ([^`]*?)\s)?--where\s'(\w+) [^`]*`", text)
    assert shown
    for words, column in shown:
        node = parse(words.split()).node
        assert isinstance(node, Command) and column in columns_of(node), (words, column)


def test_every_command_stands_under_one_heading() -> None:
    named = [name for _, names in SECTIONS for name in names]
    assert sorted(named) == sorted(child.name for child in tree().children if not child.hidden)
    assert "Others:" not in help_text(tree(), ())


def test_help_shows_the_values_that_an_option_may_have() -> None:
    for path, command in commands(tree()):
        for option in command.options:
            assert option.value or not option.choices, (path, option.names)
            shown = f"{option_names(option)} {option_help(option)}"
            listed = all(choice in shown for choice in option.choices)
            assert listed or "--list" in shown, (path, option.names)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("consume", "--decode auto|avro|json|protobuf\n"),
        ("users add", "--mechanism SCRAM-SHA-256|SCRAM-SHA-512\n"),
        ("consume", "Either read_uncommitted or read_committed."),
    ],
)
def test_help_tells_an_option_with_choices_from_a_flag(pk: Run, words: str, shown: str) -> None:
    text = pk(*words.split(), "--help").text
    assert shown in text or shown in " ".join(text.split())
    assert shown.strip() in reference()
    assert shown.strip() in "".join(man_pages().values()).replace("\\-", "-")


@pytest.mark.parametrize("width", [80, 100])
def test_help_fits(width: int) -> None:
    for path, command in commands(tree()):
        for line in help_text(command, path, width).splitlines():
            fits = (
                len(line) <= width or line.startswith(("  pk ", "Usage: ")) or " " not in line[34:]
            )
            assert fits, (path, line)


@pytest.mark.parametrize(
    ("columns", "width"), [(None, 80), ("", 80), ("x", 80), ("60", 60), ("90", 90), ("300", 100)]
)
def test_help_without_a_terminal_is_as_wide_as_columns_says(
    pk: Run, monkeypatch: pytest.MonkeyPatch, columns: str | None, width: int
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    path, command = next(each for each in commands(tree()) if each[0] == ("topics", "create"))
    assert pk(*path, "--help").text == help_text(command, path, width)
    assert pk("help", "positions").text == page("positions", width=width)


@pytest.mark.parametrize(
    ("typed", "others"),
    [
        ("consume", "console-consumer"),
        ("console-consumer", "consume"),
        ("topics list", "ls"),
        ("topic ls", "list"),
    ],
)
def test_help_names_the_other_names_of_a_command(pk: Run, typed: str, others: str) -> None:
    said = pk(*typed.split(), "--help").out.decode()
    assert f"Usage: pk {typed} " in said
    assert f"\nAlso called: {others}\n" in said


def test_the_manual_goes_by_produce_and_consume() -> None:
    pages = man_pages()
    assert {"pk-consume.1", "pk-produce.1"} <= pages.keys()
    assert not [name for name in pages if "console" in name]
    assert "Also called console\\-consumer." in pages["pk-consume.1"]
    headings = [line for line in reference().splitlines() if line.startswith("## pk ")]
    assert "## pk consume" in headings and "## pk produce" in headings
    assert not [line for line in headings if "console" in line]


@pytest.mark.parametrize("name", [name for name in PAGES])
def test_every_page_is_printed(pk: Run, name: str) -> None:
    ran = pk("help", name)
    assert ran.code == 0 and len(ran.lines) > 5
    assert not ran.err


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("errors", "19"), "NOT_ENOUGH_REPLICAS (clients try again)"),
        (("errors", "not_enough_replicas"), "19  NOT_ENOUGH_REPLICAS"),
        (("errors", "fenced", "leader"), "FENCED_LEADER_EPOCH"),
        (("configs", "retention"), "604800000 (7 days)"),
        (("configs", "topic", "tombstone"), "delete.retention.ms"),
        (("configs", "cleanup.policy"), "a list of compact, delete"),
        (("cleanup.policy",), "a list of compact, delete"),
        (("NOT_ENOUGH_REPLICAS",), "19  NOT_ENOUGH_REPLICAS"),
    ],
)
def test_pages_are_searched(pk: Run, words: tuple[str, ...], found: str) -> None:
    ran = pk("help", *words)
    assert ran.code == 0
    assert found in ran.text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("errors", "NOT_ENOGH_REPLICAS"), "did you mean NOT_ENOUGH_REPLICAS"),
        (("configs", "rentention.ms"), "did you mean retention.ms"),
        (("position",), "did you mean positions"),
    ],
)
def test_what_is_not_found_is_named(pk: Run, words: tuple[str, ...], said: str) -> None:
    ran = pk("help", *words)
    assert ran.code == 2
    assert said in ran.err


def test_an_entry_that_is_folded_is_folded_whole() -> None:
    text = (
        "  first    is told in two lines, of which\n           the second goes on\n  next     "
        "short\n"
    )
    assert folded(text, 40).splitlines() == [
        "  first    is told in two lines, of",
        "           which the second goes on",
        "  next     short",
    ]
    examples = "  A..B     from A up to, but not to, B:\n           0..5  -10..end\n"
    assert folded(examples, 36).splitlines()[-1] == "           0..5  -10..end"


def test_man_pages_are_written(pk: Run, tmp_path: Path) -> None:
    ran = pk("help", "--man", str(tmp_path / "man"))
    assert ran.code == 0
    written = {p.name: p.read_text() for p in (tmp_path / "man").iterdir()}
    assert written == man_pages()
    assert {"pk.1", "pk-topics.1", "pk-positions.7"} <= written.keys()
    for name, text in written.items():
        assert text.startswith(".TH "), name
        odd = [line for line in text.splitlines() if re.match(r"'|\.(?![A-Za-z]{2})", line)]
        assert not odd, (name, odd)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not here")
def test_man_pages_are_what_groff_reads(tmp_path: Path) -> None:
    paths = []
    for name, text in man_pages().items():
        (tmp_path / name).write_text(text)
        paths.append(str(tmp_path / name))
    ran = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-K", "utf8", "-z", *paths],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not ran.stderr


@pytest.mark.parametrize(
    "words", ["produce", "console-producer", "topic rm", "topics delete", "reassignments status"]
)
def test_help_and_errors_name_the_command_as_it_was_typed(pk: Run, words: str) -> None:
    assert pk(*words.split(), "--help").lines[0].startswith(f"Usage: pk {words} ")
    assert pk("help", *words.split()).lines[0].startswith(f"Usage: pk {words} ")
    wrong = pk(*words.split(), "--qq")
    assert wrong.code == 2
    assert wrong.err.startswith(f"pk {words} has no option --qq.")
    assert f"`pk {words} --help`" in wrong.err
