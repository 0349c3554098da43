"""The shell on a real terminal of 80 by 24: completion, history, Ctrl-C, the toolbar, and the same tree."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pyte
import pytest
from clients.fixtures import Kafka

Run = Callable[..., Any]
Fresh = Callable[[str], str]
ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join((str(ROOT / "scripts" / "path"), os.environ.get("PYTHONPATH", "")))


class Terminal:
    """A `pk` command on a terminal, and what the terminal shows."""

    def __init__(self, *words: str, **environment: str) -> None:
        self.screen = pyte.HistoryScreen(80, 24, history=1000)
        self._stream = pyte.ByteStream(self.screen)
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "pk.cli.main", *words],
            env={**os.environ, "PYTHONPATH": PATHS, "TERM": "xterm-256color", **environment},
            dimensions=(24, 80),
            timeout=20,
        )

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def until(self, wanted: str | Callable[[str], bool], seconds: float = 20) -> str:
        """Feeds the terminal until it shows `wanted`; what it shows."""
        holds = wanted if callable(wanted) else lambda text: wanted in text
        deadline = time.monotonic() + seconds
        while not holds(self.text):
            try:
                data = self.child.read_nonblocking(65536, timeout=0.2)
            except pexpect.TIMEOUT:
                assert time.monotonic() < deadline, f"{wanted!r} does not come:\n{self.text}"
                continue
            except pexpect.EOF:
                assert holds(self.text), f"ended without {wanted!r}:\n{self.text}"
                break
            self._stream.feed(data)
            # What the terminal is asked (where the cursor is) it answers.
            if b"\x1b[6n" in data:
                self.child.send(f"\x1b[{self.screen.cursor.y + 1};{self.screen.cursor.x + 1}R")
        return self.text

    def send(self, text: str) -> None:
        self.child.send(text)

    def end(self) -> int:
        """The exit code, once it has ended."""
        self.child.expect(pexpect.EOF)
        self.child.close()
        return self.child.exitstatus if self.child.exitstatus is not None else -1


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*words: str, **environment: str) -> Terminal:
        opened.append(Terminal(*words, **environment))
        return opened[-1]

    yield start
    for one in opened:
        one.child.close(force=True)


@pytest.fixture
def shell(
    kafka: Kafka, at: Run, fresh: Fresh, terminal: Callable[..., Terminal]
) -> tuple[Terminal, str]:
    """A shell that has loaded its names, and a topic of three records that it knows."""
    topic = fresh("shelf")
    at("topics", "create", topic, "-p", "2")
    at("produce", topic, "-p", "1", stdin=b"one\ntwo\nthree\n")
    one = terminal("shell", "-b", kafka.bootstrap)
    one.until("under-replicated")
    return one, topic


def test_the_same_commands_with_toolbar_and_prompt(
    shell: tuple[Terminal, str], kafka: Kafka
) -> None:
    one, topic = shell
    assert f"{kafka.bootstrap}>" in one.text
    assert "1 broker ·" in one.text and "0 under-replicated" in one.text
    one.send(f"consume {topic} -e\r")
    one.until(lambda text: "three" in text and "3 records" in text)
    one.send("topics lsit\r")
    one.until("has no command 'lsit'")
    one.send(f"topics describe {topic[:-1]}zz\r")
    one.until("There is no topic")
    one.send("exit\r")
    assert one.end() == 0


def test_completion_of_commands_topics_and_configs(shell: tuple[Terminal, str]) -> None:
    one, topic = shell
    one.send("topics descr")
    one.until("Partitions, replicas")
    one.send("\t")
    one.until("topics describe")
    one.send(f" {topic[:5]}")
    one.until("2 partitions")
    one.send("\x15configs alter topic x -c retention.m")
    one.until(lambda text: "retention.ms=" in text and "default 604800000" in text)
    one.send("\x15configs alter topic x -c compression.type=")
    one.until(lambda text: "compression.type=zstd" in text)
    one.send("\x15consume x -o @yes")
    one.until("@yesterday..@today")
    one.send("\x15")


def test_use_sets_what_commands_are_about(shell: tuple[Terminal, str]) -> None:
    one, topic = shell
    one.send(f"use topic {topic}\r")
    one.until(f"{topic}>")
    one.send("consume -o -1..end -f '<%v>\\n'\r")
    one.until("<three>")
    one.send("topics offsets -f '{partition}:{end};' | cat\r")
    one.until("0:0;1:3;")
    one.send("use\r")
    one.until(lambda text: topic not in _last_prompt(text))


def _last_prompt(text: str) -> str:
    return [line for line in text.splitlines() if ">" in line][-1]


def test_ctrl_c_ends_the_command_and_not_the_shell(shell: tuple[Terminal, str]) -> None:
    one, topic = shell
    one.send(f"consume {topic} --from-beginning\r")
    one.until("three")
    one.send("\x03")
    one.until(
        lambda text: text.count(f"{topic}") >= 1 and _last_prompt(text).rstrip().endswith(">")
    )
    one.send("topics offsets -f '{end}!' " + topic + "\r")
    one.until("0!3!")
    one.send("half a line\x03")
    one.send("exit\r")
    assert one.end() == 0


def test_a_change_asks_in_the_shell(shell: tuple[Terminal, str]) -> None:
    one, topic = shell
    one.send(f"topics delete {topic}\r")
    one.until("Delete? [y/N]")
    one.send("n\r")
    one.until("Nothing was changed.")
    one.send(f"topics delete {topic}\r")
    one.until(lambda text: text.count("Delete? [y/N]") == 2)
    one.send("\x03")
    one.until(lambda text: _last_prompt(text).rstrip().endswith(">"))
    one.send(f"topics delete {topic}\r")
    one.until(lambda text: text.count("Delete? [y/N]") == 3)
    one.send("y\r")
    one.until("deleted")


def test_history_outlives_the_shell(
    shell: tuple[Terminal, str], terminal: Callable[..., Terminal], kafka: Kafka
) -> None:
    one, topic = shell
    one.send(f"topics offsets {topic} -f 'first {{end}} '\r")
    one.until("first 0 first 3")
    one.send("exit\r")
    assert one.end() == 0
    two = terminal("shell", "-b", kafka.bootstrap)
    two.until(">")
    two.send("\x1b[A\x1b[A\r")
    two.until("first 0 first 3")
    two.send("\x12offsets")
    two.until(lambda text: "offsets" in text.splitlines()[-2] or "reverse-i-search" in text)
    two.send("\x03exit\r")


def test_a_lost_connection_is_tried_again(terminal: Callable[..., Terminal]) -> None:
    one = terminal("shell", "-b", "127.0.0.1:1")
    one.until("not connected")
    one.send("topics list\r")
    one.until("trying again")
    one.send("\x03")
    one.send("help positions\r")
    one.until("A..B")


def test_lines_from_a_pipe(at: Run, fresh: Fresh) -> None:
    topic = fresh("piped")
    lines = f"topics create {topic}\n\nuse topic {topic}\ntopics offsets -f name\nup\nnonsense\n"
    ran = at("shell", stdin=lines.encode())
    assert ran.text.splitlines()[-1] == topic
    assert "outside the shell" in ran.err and "nonsense" in ran.err
    assert ran.code == 2


def test_a_question_on_a_terminal_outside_the_shell(
    at: Run, kafka: Kafka, fresh: Fresh, terminal: Callable[..., Terminal]
) -> None:
    topic = fresh("asked")
    at("topics", "create", topic)
    one = terminal("topics", "delete", topic, "-b", kafka.bootstrap)
    one.until("Delete? [y/N]")
    one.send("\r")
    assert one.end() == 5
    assert at("topics", "list", topic, "-f", "name").text == f"{topic}\n"
    two = terminal("topics", "delete", topic, "-b", kafka.bootstrap)
    two.until("Delete? [y/N]")
    two.send("y\r")
    two.until("deleted")
    assert two.end() == 0


def test_tables_on_a_terminal_fit_it_and_ctrl_c_is_130(
    at: Run, kafka: Kafka, fresh: Fresh, terminal: Callable[..., Terminal]
) -> None:
    topic = fresh("t" * 60)
    at("topics", "create", topic)
    one = terminal("topics", "describe", topic, "-b", kafka.bootstrap, NO_COLOR="1")
    one.until("PARTITION")
    assert one.end() == 0
    at("produce", topic, "x marks it")
    two = terminal("consume", topic, "-b", kafka.bootstrap, "--from-beginning")
    two.until("x marks it")
    two.send("\x03")
    assert two.end() == 130


def test_isr_watches_until_interrupted(
    at: Run, kafka: Kafka, fresh: Fresh, terminal: Callable[..., Terminal]
) -> None:
    one = terminal("isr", "-w", "-b", kafka.bootstrap, "-f", "{topic} {event}\\n")
    topic = fresh("watched")

    def seen(text: str) -> bool:
        # A topic made before the first look would be no news: each round makes another.
        if "made" not in text:
            at("topics", "create", fresh(topic))
        return "made" in text

    one.until(seen)
    one.send("\x03")
    assert one.end() == 130
