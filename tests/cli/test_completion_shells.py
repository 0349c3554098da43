"""Completion in real shells: the line after Tab, and the descriptions that zsh and fish show beside
the words.

The completed names come from files that the test has written for a cluster that is not running:
completion needs no broker.
"""

import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clients.pk_broker import pk_command
from terminal import Terminal, environment_of

from pk.cli.runtime.name_cache import remember, remember_configs

ROOT = Path(__file__).resolve().parents[2]
Start = Callable[..., Any]

CLUSTER = "127.0.0.1:9092"
START = {
    "bash": ("--norc", "--noprofile", "-i"),
    "zsh": ("-f", "-i"),
    "fish": ("--no-config", "-i"),
}
SETUP = {
    "bash": "PS1='$ '; source {script}",
    "zsh": "PS1='$ '; autoload -U compinit && compinit -D; source {script}",
    "fish": "function fish_prompt; echo -n '$ '; end; function fish_greeting; end; source {script}",
}


@pytest.fixture(params=["bash", "zsh", "fish"])
def line(request: pytest.FixtureRequest, terminal: Start, tmp_path: Path) -> "Line":
    """A shell that completes `pk`."""
    shell = request.param
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    folder = tmp_path / "bin"
    folder.mkdir()
    pk = folder / "pk"
    pk.write_text(f'#!/bin/sh\nexec {" ".join(pk_command())} "$@"\n')
    pk.chmod(pk.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "data").mkdir()
    path = environment_of(None, {})["PATH"]
    one = terminal(
        *START[shell], program=program, columns=120, cwd=tmp_path, PATH=f"{folder}:{path}"
    )
    one.line(SETUP[shell].format(script=ROOT / "completions" / f"pk.{shell}"))
    found = Line(shell, one)
    one.line("echo ready-to-go | tr o 0")
    one.wait_for(lambda text: "ready-t0-g0" in text and text.splitlines()[-1] == "$")
    found.clear()
    return found


class Line:
    """The line being typed in a shell."""

    def __init__(self, shell: str, terminal: Terminal) -> None:
        self.shell = shell
        self.terminal = terminal

    def completes(self, typed: str, wanted: str) -> None:
        """Types, presses Tab, and waits until the line is `wanted`; a blank at its end counts."""
        self.terminal.keys(typed, "tab")
        self.terminal.wait_for(lambda text: f"$ {wanted}".rstrip() in text.splitlines())
        self.terminal.send("x")  # shows whether a blank precedes it
        self.terminal.wait_for(lambda text: f"$ {wanted}x" in text.splitlines())
        self.clear()

    def lists(self, typed: str, *wanted: str) -> str:
        """Types, presses Tab twice, and waits until all of `wanted` is shown; the screen then."""
        self.terminal.keys(typed, "tab", "tab")
        shown = self.terminal.wait_for(lambda text: all(word in text for word in wanted))
        self.clear()
        return shown

    def clear(self) -> None:
        """An empty line at the top of an empty screen."""
        self.terminal.keys("ctrl-u", "ctrl-l")
        self.terminal.wait_for(lambda text: text.strip() == "$")


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    remember(CLUSTER, "topic", {"orders": "3 partitions", "payments": "1 partition"})
    remember(CLUSTER, "group", {"billing and more": "Stable"})
    remember_configs(CLUSTER, {"orders": {"retention.ms": "1000"}})


@pytest.mark.thorough
def test_words_names_values_and_what_they_are(line: Line) -> None:
    line.completes("pk topics desc", "pk topics describe ")
    line.completes("pk topics describe ord", "pk topics describe orders ")
    line.completes("pk topics create x -c retention.m", "pk topics create x -c retention.ms=")
    line.completes("pk consume x -o @yesterday..@t", "pk consume x -o @yesterday..@today ")
    line.completes("pk produce x --compression=zs", "pk produce x --compression=zstd ")
    line.completes("pk consume x -g bil", r"pk consume x -g billing\ and\ more ")
    line.completes("pk up --data da", "pk up --data data/")
    # fish shows … for what the words have in common
    wanted = ["etention.ms=", "etention.bytes="]
    wanted += ["now 1000"] if line.shell != "bash" else []
    shown = line.lists("pk configs alter topic orders -c retention.", *wanted)
    assert ("now 1000" in shown) == (line.shell != "bash")
    if line.shell == "zsh":
        line.lists("pk consume x --forma", r"'%k\t%v\n'")
        assert "--" not in line.lists("pk topics list -f ", "schema")
    line.terminal.keys("pk topics list --where 'part", "tab")
    line.terminal.wait_for("--where 'partitions'")
