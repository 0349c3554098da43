"""`pk produce` on a real terminal: records are typed, checked and acknowledged, and those that fail
are kept."""

import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker
from terminal import SIZES, Terminal, on_terminal

from pk.cli.command_line.parse import parse
from pk.cli.nouns.produce.editor import Screen
from pk.cli.nouns.produce.options import Produce
from pk.cli.nouns.produce.plan import Plan
from pk.cli.runtime.context import Context
from pk.cli.terminal.streams import Streams

Run = Callable[..., Any]
Fresh = Callable[[str], str]
Start = Callable[..., Terminal]

ACKNOWLEDGED = re.compile(r"p0@\d+  \d+\.\d ms")


@pytest.fixture
def topic(at: Run, fresh: Fresh) -> str:
    name = fresh("typed")
    at("topics", "create", name, "-p", "1")
    return name


def values(at: Run, topic: str) -> list[str | None]:
    return [r["value"] for r in at("consume", topic, "-e", "-f", "json").json]


def edit(terminal: Start, kafka: Kafka | PkBroker, topic: str, *words: str, **how: Any) -> Terminal:
    one = terminal("produce", topic, *words, "-b", kafka.bootstrap, **how)
    one.wait_for(re.compile("Ctrl-D ends"))
    return one


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_lines_and_documents_are_sent_and_acknowledged(
    terminal: Start, at: Run, kafka: Kafka, topic: str, columns: int, lines: int
) -> None:
    one = edit(terminal, kafka, topic, columns=columns, lines=lines)
    one.line("hello wörld")
    one.wait_for(re.compile(r"p0@0  \d"))
    one.line('{"a": 1,')
    one.wait_for("the JSON is not finished")
    one.line('"b": 2}')
    one.wait_for(re.compile(r"p0@1  \d"))
    one.keys("first", "alt-enter", "second", "enter")
    one.wait_for(re.compile(r"p0@2  \d"))
    one.resize(60, 20)
    one.line("after the resize")
    one.wait_for(re.compile(r"p0@3  \d"))
    one.keys("ctrl-d")
    assert one.end() == 0
    assert "4 records written." in one.screen()
    assert one.traces() == []
    assert values(at, topic) == [
        "hello wörld",
        '{"a": 1,\n"b": 2}',
        "first\nsecond",
        "after the resize",
    ]


def test_what_is_typed_ahead_is_not_lost(
    terminal: Start, at: Run, kafka: Kafka, topic: str
) -> None:
    one = edit(terminal, kafka, topic)
    one.send("".join(f"{i}\r" for i in range(20)) + "\x04")
    assert one.end() == 0
    assert one.traces() == []
    assert values(at, topic) == [str(i) for i in range(20)]


def test_the_last_input_is_there_to_be_edited_also_the_next_time(
    terminal: Start, at: Run, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    one = edit(terminal, kafka, topic)
    one.keys("one", "alt-enter", "more", "enter")
    one.wait_for(re.compile(r"p0@0  \d"))
    one.keys("up", "!", "enter")
    one.wait_for(re.compile(r"p0@1  \d"))
    one.keys("ctrl-d")
    assert one.end() == 0
    one = edit(terminal, kafka, topic)
    one.keys("up")
    one.wait_for(re.compile(r"> one\n.*\| more!"))
    one.keys("?", "enter")
    one.wait_for(re.compile(r"p0@2  \d"))
    one.keys("ctrl-d")
    assert one.end() == 0
    assert values(at, topic) == ["one\nmore", "one\nmore!", "one\nmore!?"]
    (history,) = tmp_path.rglob("*.history")
    assert history.stat().st_mode & 0o777 == 0o600


def test_keys_by_the_parse_options_and_a_tab_is_a_tab(
    terminal: Start, at: Run, kafka: Kafka, topic: str
) -> None:
    one = edit(terminal, kafka, topic, "--property", "parse.key=true", columns=120)
    assert "key TAB value" in one.screen()
    one.line("novalue")
    one.wait_for("no key separator")
    one.keys("ctrl-u", "k", "tab", "v", "enter")
    one.wait_for(ACKNOWLEDGED)
    one.keys("ctrl-d")
    assert one.end() == 0
    (record,) = at("consume", topic, "-e", "-f", "json").json
    assert (record["key"], record["value"]) == ("k", "v")


def test_a_record_can_be_written_in_the_user_s_editor(
    terminal: Start, at: Run, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf '%s,\\n %s' '{\"a\": 1' '\"b\": 2}' > \"$1\"\n")
    editor.chmod(0o755)
    one = edit(terminal, kafka, topic, "--json", EDITOR=str(editor))
    one.send("\x18\x05")
    one.wait_for('|  "b": 2}')
    one.keys("enter")
    one.wait_for(ACKNOWLEDGED)
    one.keys("ctrl-d")
    assert one.end() == 0
    assert values(at, topic) == ['{"a": 1,\n "b": 2}']


def test_pasted_lines_are_records_of_their_own(
    terminal: Start, at: Run, kafka: Kafka, topic: str
) -> None:
    one = edit(terminal, kafka, topic, "-n", "3", "--sync", "--rate", "100")
    one.send("\x1b[200~one\r\ntwo\nthree\n\x1b[201~")
    one.wait_for("Enter writes 3 records")
    one.keys("enter")
    assert one.end() == 0, "it ends after three"
    assert "p0@2  " in one.screen()
    assert values(at, topic) == ["one", "two", "three"]


def test_what_the_broker_refuses_stands_there_again(
    terminal: Start, at: Run, kafka: Kafka, fresh: Fresh
) -> None:
    topic = fresh("small")
    at("topics", "create", topic, "-p", "1", "-c", "max.message.bytes=100")
    one = edit(terminal, kafka, topic, columns=200)
    long = "x" * 150
    one.line(long)
    one.wait_for(re.compile(rf"Not written: .*\n(.*\n)*{topic}> {long}"))
    one.keys("ctrl-u", "short", "enter")
    one.wait_for(re.compile(r"p0@0  \d"))
    one.keys("ctrl-d")
    assert one.end() == 1
    assert "1 record could not be written." in one.screen()
    assert values(at, topic) == ["short"]


def test_ctrl_c_empties_the_line_and_then_ends(
    terminal: Start, at: Run, kafka: Kafka, topic: str
) -> None:
    one = edit(terminal, kafka, topic)
    one.keys("not this")
    one.wait_for("> not this")
    one.keys("ctrl-c")
    one.wait_for(lambda text: "not this" not in text)
    one.keys("ctrl-c")
    assert one.end() == -signal.SIGINT
    assert one.traces() == []
    assert values(at, topic) == []


def test_ctrl_c_before_the_editor_has_opened_keeps_it_from_opening() -> None:
    """The editor opens in a thread, which must not ignore an earlier Ctrl-C."""
    found: list[object] = []

    async def ask() -> None:
        context = Context(parse(["produce", "t"]).values, (), Streams())
        with trio.CancelScope() as scope:
            scope.cancel()
            found.append(await Screen(context, Plan(Produce(topic="t")), str).ask(""))

    def main(_words: Sequence[str]) -> int:
        trio.run(ask)
        return 0

    shown = on_terminal(main, [], typed="the editor has opened\r")
    assert (shown.code, found) == (0, [])


BETWEEN = """
import trio
from pk.cli.command_line.parse import parse
from pk.cli.nouns.produce.editor import Screen
from pk.cli.nouns.produce.options import Produce
from pk.cli.nouns.produce.plan import Plan
from pk.cli.runtime.context import Context
from pk.cli.terminal.streams import Streams

async def main():
    context = Context(parse(["produce", "t"]).values, (), Streams())
    screen = Screen(context, Plan(Produce(topic="t")), str)
    screen.put_back("refused")
    for _ in range(2):
        typed = await screen.ask("")
        print(f"<{typed.text}>", flush=True)

trio.run(main)
"""


def test_what_is_refused_before_the_editor_has_opened_stands_in_it(terminal: Start) -> None:
    """The answer of a slow broker may come between two editors."""
    one = terminal("-c", BETWEEN, program=sys.executable)
    one.wait_for("t> refused")
    one.keys("enter")
    one.wait_for("<refused>")
    one.line("next")
    one.wait_for("<next>")
    assert one.end() == 0


def test_a_signal_from_elsewhere_leaves_the_terminal_as_it_was(
    terminal: Start, kafka: Kafka, topic: str
) -> None:
    one = edit(terminal, kafka, topic)
    one.keys("half a line")
    one.wait_for("half a line")
    one.signal(signal.SIGTERM)
    assert one.end() == 130
    assert one.traces() == []
    assert "Traceback" not in one.screen()


@pytest.mark.faults
def test_a_broker_dies_and_returns_while_the_editor_is_open(
    terminal: Start, pk: Run, tmp_path: Path
) -> None:
    with PkBroker(directory=tmp_path / "data") as broker:
        pk("topics", "create", "t", "-p", "1", "-b", broker.bootstrap)
        one = edit(terminal, broker, "t")
        one.line("before")
        one.wait_for(re.compile(r"p0@0  \d"))
        broker.kill()
        one.line("meanwhile")
        one.wait_for("sending 1 for")
        one.keys("being typed")
        broker.start()
        one.wait_for(re.compile(r"p0@1  \d.*\n(.*\n)*t> being typed"))
        one.keys("enter")
        one.wait_for(re.compile(r"p0@2  \d"))
        broker.kill()
        one.line("for nobody")
        one.wait_for("sending ")
        one.keys("ctrl-d")
        one.wait_for("Ctrl-C stops waiting")
        one.keys("ctrl-c")
        assert one.end() == 1
        assert "1 record was not acknowledged" in one.screen().replace("\n", "")
        assert "Traceback" not in one.scrollback() and one.traces() == []
        broker.start()
        read = pk("consume", "t", "-e", "-b", broker.bootstrap).text
    assert read == "before\nmeanwhile\nbeing typed\n"


def test_a_missing_topic_is_asked_about(
    terminal: Start, at: Run, pk_kafka: Kafka, fresh: Fresh
) -> None:
    topic = fresh("new")
    one = terminal("produce", topic, "-b", pk_kafka.bootstrap)
    one.wait_for("[y/N]")
    one.line("n")
    assert one.end() == 5
    one = terminal("produce", topic, "-b", pk_kafka.bootstrap)
    one.wait_for("[y/N]")
    one.line("y")
    one.wait_for("Ctrl-D ends")
    one.line("x")
    one.wait_for(re.compile(r"p\d+@0  \d"))
    one.keys("ctrl-d")
    assert one.end() == 0


def test_json_that_is_wrong_is_not_sent_also_without_color(
    terminal: Start, at: Run, kafka: Kafka, topic: str
) -> None:
    one = edit(terminal, kafka, topic, "--json", NO_COLOR="1")
    one.line('{"a": tru}')
    one.wait_for("not JSON at column 7")
    one.keys("ctrl-c")
    one.wait_for("Ctrl-D ends")
    one.line('{"a": true}')
    one.wait_for(ACKNOWLEDGED)
    assert one.colors == set()
    one.keys("ctrl-d")
    assert one.end() == 0
    assert values(at, topic) == ['{"a": true}']


def test_json_that_is_mistyped_is_sent_as_text_only_by_a_second_enter(
    terminal: Start, at: Run, kafka: Kafka, topic: str
) -> None:
    one = edit(terminal, kafka, topic)
    one.line('{"a": tru}')
    one.wait_for("Enter again sends it as text: not JSON at column 7")
    one.keys("delete", "delete", "delete", "1", "enter")  # at the mistake
    one.wait_for(re.compile(r"p0@0  \d"))
    one.line("{b}")
    one.wait_for("Enter again sends it as text")
    one.keys("enter")
    one.wait_for(re.compile(r"p0@1  \d"))
    one.keys("ctrl-d")
    assert one.end() == 0
    assert values(at, topic) == ['{"a": 1}', "{b}"]


def test_a_dumb_terminal_has_apache_s_prompt(
    terminal: Start, at: Run, kafka: Kafka, topic: str
) -> None:
    one = terminal("produce", topic, "-b", kafka.bootstrap, TERM="dumb")
    one.wait_for(">")
    one.line("a")
    one.wait_for(">a\n>")
    one.line("b")
    one.wait_for(">b\n>")
    one.keys("ctrl-d")
    assert one.end() == 0
    assert "2 records written: p0@0" in one.screen()
    assert b"\x1b" not in one.output
    assert values(at, topic) == ["a", "b"]


def test_in_the_shell_ctrl_c_ends_the_editor_and_not_the_shell(
    terminal: Start, at: Run, kafka: Kafka, topic: str
) -> None:
    one = terminal("shell", "-b", kafka.bootstrap)
    one.wait_for(re.compile(r"names \d+ s old"))
    one.line(f"produce {topic}")
    one.wait_for("Ctrl-D ends")
    one.line("from the shell")
    one.wait_for(ACKNOWLEDGED)
    one.keys("ctrl-c")
    one.wait_for(re.compile(r"1 record written\.\n.*>"))
    one.line(f"topics list {topic} -f name")
    one.wait_for(re.compile(rf"\n{topic}\n"))
    one.keys("ctrl-d")
    assert one.end() == 0
    assert values(at, topic) == ["from the shell"]
