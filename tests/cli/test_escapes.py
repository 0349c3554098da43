"""Text in a name does not control the terminal of a user who lists it."""

import io
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
import trio
from clients.fixtures import Kafka
from terminal import ESCAPE, Terminal
from trio.testing import MockClock

from pk.cli.command_line.parse import parse
from pk.cli.exits import CommandError
from pk.cli.nouns.wait.wait import group_empty
from pk.cli.options.option_values import Values
from pk.cli.output.formats import Column, Listing
from pk.cli.run import report
from pk.cli.runtime.context import Context
from pk.cli.terminal.streams import Streams
from pk.cli.terminal.text import escaped, escaped_bytes, escaped_lines
from pk.cli.up.logs import InertFormatter
from pk.core.durations import Duration
from pk.net.client.answers import Answers
from pk.net.client.results import GroupDescription, MemberDescription

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
        at("undo", "--list"),
        at("undo", "last", "-d"),
    ]
    for ran in everything:
        shown = (ran.out + ran.err.encode()).decode()
        assert r"\x1b]0;owned\x07" in shown
        assert not ESCAPE.search(shown)
        assert not set(shown) & {"\x07", "\r", "\x9b", "\u202e"}
    assert at("groups", "describe", group, "-f", "json").json[0]["group"] == group


def test_our_own_lines_and_colors_stay() -> None:
    ours = "one\ttwo\n\x1b[1;31mthree\x1b[0m"
    assert escaped_lines(ours) == ours
    assert escaped_lines("\x1b[2J\x1b]0;a\x07") == r"\x1b[2J\x1b]0;a\x07"
    assert escaped(ours) == r"one\ttwo\n\x1b[1;31mthree\x1b[0m"
    assert escaped("plain – ü 日本\udcff") == "plain – ü 日本\udcff"


@pytest.mark.parametrize("form", ["name", "csv", "{group}\\n", "json", "jsonl", "yaml"])
def test_formats_for_programs_are_inert_on_a_terminal_and_exact_elsewhere(form: str) -> None:
    shown = {}
    for terminal in (True, False):
        out = io.BytesIO()
        context = Context(Values({"format": form}), (), Streams(out, out_terminal=terminal))
        context.show(Listing([Column("group")], [{"group": "\x1b[2Ja\x9b1A\u202e"}]))
        shown[terminal] = out.getvalue()
    assert b"\x1b" not in shown[True] and b"\xc2\x9b" not in shown[True]
    assert rb"1A\u202e" in shown[True]
    exact = b"a\xc2\x9b1A\xe2\x80\xae"
    assert exact in shown[False]
    assert (b"\x1b[2J" + exact in shown[False]) == (form not in ("json", "jsonl", "yaml"))


def test_bytes_of_any_kind_pass_but_what_acts() -> None:
    harmless = "ü 日本 \x1b[32mgreen\x1b[0m\t\n".encode() + bytes(range(0xA0, 0x100))
    assert escaped_bytes(harmless) == harmless
    assert escaped_bytes(b"\x1b]0;a\x07\r\xe2\x80\xae") == rb"\x1b]0;a\x07\r\u202e"


class Tty(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


class Peopled:
    """A session with a cluster whose only group has a member with any name."""

    async def admin(self, *_: object) -> "Peopled":
        return self

    async def describe_groups(self, names: list[str]) -> Answers[str, Any]:
        nobody: Any = None
        member = MemberDescription(HOSTILE, None, HOSTILE, "/host", ())
        return Answers(
            {n: GroupDescription(n, "", "Stable", "", "", (member,), nobody) for n in names}.items()
        )


def test_what_is_waited_for_is_inert(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    said = Tty()
    parsed = parse(("wait", "group-empty", "g", "--timeout", "1"))
    session: Any = Peopled()
    context = Context(parsed.values, parsed.path, Streams(io.BytesIO(), said), session)
    with pytest.raises(CommandError):
        trio.run(group_empty, context, ["g"], Duration(1000), clock=MockClock(autojump_threshold=0))
    assert r"g is Stable with \x1b]0;owned\x07\x1b[2J\r\n" in said.getvalue()
    ours = re.sub(r"\r|\x1b\[(2K|1A|\?25[hl])", "", said.getvalue())  # the status line's own
    assert not set(ours) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_an_error_s_traceback_is_inert() -> None:
    said = io.StringIO()
    context = Context(Values({"debug": True}), (), Streams(io.BytesIO(), said))
    try:
        raise CommandError(HOSTILE)
    except CommandError as error:
        context.fail(error)
        report(context, error)
    assert said.getvalue().count("Traceback") == 2
    assert not set(said.getvalue()) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_a_broker_s_log_is_inert() -> None:
    record = logging.LogRecord("pk", logging.WARNING, "", 0, "from %s", (HOSTILE,), None)
    line = InertFormatter("%(levelname)s: %(message)s").format(record)
    assert line.startswith(r"WARNING: from \x1b]0;owned\x07")
    assert not set(line) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_a_line_that_is_written_over_never_fills_more_than_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    said = Tty()
    context = Context(Values(), (), Streams(io.BytesIO(), said))
    context.show_status("日本" * 40)
    assert said.getvalue().removeprefix("\x1b[?25l").startswith("日本" * 19 + "日…")
    context.clear_status()
    assert said.getvalue().endswith("\r\x1b[1A\x1b[2K")


def test_what_a_command_is_doing_is_not_written_into_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log, dumb = io.StringIO(), Tty()
    Context(Values(), (), Streams(io.BytesIO(), log)).show_status("Spark is starting…")
    monkeypatch.setenv("TERM", "dumb")
    Context(Values(), (), Streams(io.BytesIO(), dumb)).show_status("Spark is starting…")
    assert log.getvalue() == dumb.getvalue() == ""


def test_records_are_inert_on_a_terminal_and_exact_in_a_pipe(
    terminal: Callable[..., Terminal], at: Run, kafka: Kafka, fresh: Fresh
) -> None:
    topic = fresh("topic")
    at("topics", "create", topic)
    at("produce", topic, "-k", "\x1b[2Jkey", "\x1b]0;owned\x07value")
    words = ("consume", topic, "-e", "-f", "%k %v\\n")
    one = terminal(*words, "-b", kafka.bootstrap)
    one.wait_for(r"\x1b[2Jkey \x1b]0;owned\x07value")
    assert one.end() == 0
    one = terminal("consume", topic, "-e", "-f", "%k", "-b", kafka.bootstrap)
    one.wait_for("\n1 record.")  # the summary starts a new line after the output
    assert at(*words).out == b"\x1b[2Jkey \x1b]0;owned\x07value\n"
