"""Nothing that somebody put into a name acts on the terminal of who lists it."""

from collections.abc import Callable
from typing import Any

from terminal import ESCAPE

from pk.cli.escapes import escaped, escaped_lines

Run = Callable[..., Any]
Fresh = Callable[[str], str]

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n\x9b1A\u202e"


def test_names_in_tables_and_sentences_are_inert(at: Run, fresh: Fresh) -> None:
    topic, group = fresh("topic"), fresh("group") + HOSTILE
    at("topics", "create", topic)
    at("produce", topic, "one")
    reset = at("groups", "reset-offsets", group, "-t", topic, "--to", "start", "-y")
    assert reset.code == 0
    everything = [
        reset,
        at("groups", "list"),
        at("groups", "describe", group),
        at("groups", "lag", group, "-f", "wide"),
        at("groups", "describe", group + "x"),
        at("groups", "delete-offsets", group, "-t", topic, "-d"),
        at("groups", "delete", group, "-d"),
        at("why", "lag", group),
        at("history"),
        at("undo", "last", "-d"),
    ]
    for ran in everything:
        shown = (ran.out + ran.err.encode()).decode()
        assert r"\x1b]0;owned\x07" in shown
        assert not ESCAPE.search(shown)
        assert not set(shown) & {"\x07", "\r", "\x9b", "\u202e"}
    assert at("groups", "describe", group, "-f", "json").json[0]["group"] == group


def test_our_own_lines_and_colours_stay() -> None:
    ours = "one\ttwo\n\x1b[1;31mthree\x1b[0m"
    assert escaped_lines(ours) == ours
    assert escaped_lines("\x1b[2J\x1b]0;a\x07") == r"\x1b[2J\x1b]0;a\x07"
    assert escaped(ours) == r"one\ttwo\n\x1b[1;31mthree\x1b[0m"
    assert escaped("plain – ü 日本\udcff") == "plain – ü 日本\udcff"
