"""The examples of the README and the tour, typed line by line in a terminal.

The test adds only the port, which the system chooses here. It creates topics and groups that the
pages do not create. It presses the key that ends a program that keeps the terminal (`pk top`, the
editor, an endless measurement). Addresses and times differ from run to run, so they are masked on
both sides. A line `…` of a page stands for any lines, and `…` at the end of a line for the rest of
that line. A command below which a page prints nothing must end with 0.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from clients.pk_broker import pk_environment
from preloaded import can_fork
from terminal import Forked, Terminal

ROOT = Path(__file__).resolve().parents[2]
COLUMNS, LINES = 120, 50
WAIT_S = 120
PROMPT = "<ready>"
README, TOUR = "README.md", "docs/tour.md"
MORE, SPARK = "$ pk top ", "$ pk spark-export"
"""The first lines of the blocks that other tests type."""

_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_ERASED = re.compile(r"[^\n]*\n(?:\x1b\[\?25h)?\r\x1b\[1A\x1b\[2K")
"""A line that rich drew and erased: a command shows its progress if it takes a second."""
_FOR_THE_SHELL = re.compile(r"[|<>&;$`*~]")
_MASKS = (
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?"), "TIME"),
    (re.compile(r"after [\d,]+ ms"), "after N ms"),
    (re.compile(r"about \d+ kB"), "about N kB"),
)
Example = tuple[str, list[str]]
"""A command line, and what the page prints below it."""


def blocks(page: str, start: str = "") -> list[list[Example]]:
    """The examples of the block of a page that begins with `start`; without it, of each of the
    other blocks."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found: list[list[Example]] = []
    for block in _BLOCK.findall(text):
        own = next((each for each in (MORE, SPARK) if block.startswith(each)), "")
        if own != start:
            continue
        examples: list[Example] = []
        for line in block.splitlines():
            if line.startswith("$ "):
                examples.append((line[2:].partition("  #")[0].rstrip(), []))
            else:
                examples[-1][1].append(line)
        found.append(examples)
    return found


def masked(text: str) -> str:
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    return " ".join(text.split())


def matches(printed: list[str], shown: list[str]) -> bool:
    """Whether the text on the terminal is the one that the page prints."""
    parts: list[str] = []
    for line in printed:
        if line == "…":
            parts.append(".*")
        elif line.endswith("…"):
            parts.append(re.escape(masked(line[:-1])) + r"[^\n]*\n")
        else:
            parts.append(re.escape(masked(line)) + r"\n")
    text = "".join(masked(line) + "\n" for line in shown if line.strip())
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


class Shell:
    """A bash on a terminal."""

    def __init__(self, home: Path, **environment: str) -> None:
        scripts = Path(sys.executable).parent
        kept = {k: v for k, v in pk_environment().items() if not k.startswith(("PK_", "PYTHONUN"))}
        self._home = home
        self._env = {
            **kept,
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "PS1": PROMPT,
            "TERM": "xterm",
            "HOME": str(home),
            "NO_COLOR": "1",
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_RUNTIME_DIR": str(home),
            "TMPDIR": str(home),
            **environment,
        }
        self.bash: Any = pexpect.spawn(
            "bash",
            ["--norc", "--noprofile", "-i"],
            env=self._env,
            cwd=str(home),
            dimensions=(LINES, COLUMNS),
            encoding="utf-8",
            timeout=WAIT_S,
        )
        self.bash.delaybeforesend = None
        self.bash.expect_exact(PROMPT)

    def type(self, line: str) -> list[str]:
        """Types a line and answers yes to questions. Returns the text that the terminal showed. A
        line that is a `pk` command and nothing else needs no shell: it has a terminal to itself."""
        self._ended = None
        if line.startswith("pk ") and not _FOR_THE_SHELL.search(line) and can_fork(self._env):
            end: Any = pexpect.EOF
            one: Any = Forked(
                shlex.split(line)[1:], self._env, str(self._home), (LINES, COLUMNS), "utf-8"
            )
        else:
            end, one = PROMPT, self.bash
            one.sendline(line)
            one.expect_exact("\r\n")
        shown = ""
        while one.expect_exact([end, "[y/N] "]) == 1:
            shown += one.before + "[y/N] "
            one.sendline("y")
        if one is not self.bash:
            self._ended = one.wait()
            one.close()
        shown = _ESCAPE.sub("", _ERASED.sub("", shown + one.before))
        # Progress may overwrite a line several times. Only the last text counts.
        return [line.rstrip("\r").rpartition("\r")[2] for line in shown.split("\n")]

    def succeeds(self) -> bool:
        """Whether the previous line ended with 0."""
        if self._ended is not None:
            return self._ended == 0
        return self.type("echo $?")[0] == "0"

    def close(self) -> None:
        self.bash.sendintr()
        self.bash.expect_exact(PROMPT)
        self.bash.sendline("exit")
        self.bash.expect(pexpect.EOF)
        self.bash.close()


def start(shell: Shell, line: str) -> tuple[str, str]:
    """Types a line that keeps its terminal. Returns its ready line, and the address at the end of
    that."""
    shell.bash.sendline(f"{line} --port 0")
    shell.bash.expect(r"\n([^\n]* at\s+(127\.[^\s]+))\r\n")  # a narrow terminal breaks it there
    return " ".join(_ESCAPE.sub("", shell.bash.match[1]).split()), shell.bash.match[2]


@pytest.fixture
def shells(tmp_path: Path) -> Iterator[list[Shell]]:
    opened: list[Shell] = []
    yield opened
    for shell in reversed(opened):
        shell.close()


def check(shell: Shell, examples: list[Example]) -> None:
    for line, printed in examples:
        shown = shell.type(line)
        assert shell.succeeds(), (line, shown)
        if printed:
            assert matches(printed, shown), (line, "\n".join(shown))


def test_two_minutes_and_the_tour(tmp_path: Path, shells: list[Shell]) -> None:
    up, first = blocks(README)
    more, files = blocks(TOUR)[:2]
    shells.append(Shell(tmp_path))
    (line, printed), *_ = up
    ready, address = start(shells[0], line)
    assert masked(ready) == masked(printed[0])
    shells.append(Shell(tmp_path, PK_BOOTSTRAP_SERVER=address))
    check(shells[1], first)
    check(shells[1], more)
    check(shells[1], files)


def test_a_cluster(tmp_path: Path, shells: list[Shell]) -> None:
    up, commands = blocks(TOUR)[2:]
    shells.append(Shell(tmp_path))
    _, addresses = start(shells[0], up[0][0])
    shells.append(Shell(tmp_path, PK_BOOTSTRAP_SERVER=addresses))
    check(shells[1], commands)


OURS = Callable[..., Terminal]
TOP_ROWS = 30
TOP_SHAPE = r"""(?s)\s*1 Cluster .*2 Topics .*3 Groups .*
.*BROKER▲.*
\s*1 +127\.0\.0\.1:\d+ .*
.*q quit.*"""
"""The first screen of `pk top`: the tabs, the headings of the brokers, the one broker, the keys."""


def leave_top(one: Terminal) -> None:
    shown = one.wait_for(lambda text: re.search(TOP_SHAPE, text) is not None)
    assert len(shown.splitlines()) == TOP_ROWS, shown
    one.keys("q")
    assert one.end() == 0


def leave_editor(one: Terminal) -> None:
    one.wait_for("Ctrl-D")
    one.keys("ctrl-d")
    assert one.end() == 0


LEAVING = {"pk top": leave_top, "pk produce orders": leave_editor}
"""Functions that end a program that keeps the terminal."""


MEASURES = "pk perf"
"""Takes half a minute."""


@pytest.mark.thorough
@pytest.mark.parametrize("measuring", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_more_commands(
    tmp_path: Path, shells: list[Shell], terminal: OURS, measuring: bool
) -> None:
    (block,) = blocks(TOUR, MORE)
    examples = [each for each in block if each[0].startswith(MEASURES) == measuring]
    assert examples
    shells.append(Shell(tmp_path))
    _, address = start(shells[0], "pk up --memory")
    shells.append(shell := Shell(tmp_path, PK_BOOTSTRAP_SERVER=address))
    (tmp_path / "late.jsonl").write_text('{"value": "{}", "headers": [["reason", "timeout"]]}\n')
    for line in (
        "pk topics create orders orders-dlq -p 2",
        "pk produce orders --fake orders -n 500 --seed 1",
        "pk produce orders-dlq -f jsonl < late.jsonl",
        "pk consume orders -g billing --from-beginning -n 500 -f '%o\\n'",
    ):
        shown = shell.type(line)
        assert shell.succeeds(), (line, shown)
    for line, printed in examples:
        assert not printed, line
        if line in LEAVING:
            size = {"columns": COLUMNS, "lines": TOP_ROWS}
            one = terminal(*shlex.split(line)[1:], PK_BOOTSTRAP_SERVER=address, **size)
            LEAVING[line](one)
            assert one.traces() == []
        else:
            shown = shell.type(line)
            assert shell.succeeds(), (line, shown)
    assert measuring or LEAVING.keys() <= {line for line, _ in examples}


@pytest.mark.slow
def test_spark_exports(tmp_path: Path, shells: list[Shell]) -> None:
    pytest.importorskip("pyspark")
    (examples,) = blocks(TOUR, SPARK)
    shells.append(Shell(tmp_path))
    _, address = start(shells[0], "pk up --memory")
    shells.append(shell := Shell(tmp_path, PK_BOOTSTRAP_SERVER=address))
    shown = shell.type("pk produce orders --fake orders -n 500 --seed 1 --create")
    assert shell.succeeds(), shown
    check(shell, examples)
    assert list((tmp_path / "orders").rglob("*.parquet"))
