"""Programs that stay on the terminal until the user ends them. Each runs as a separate process."""

import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clients.fixtures import Kafka
from clients.pk_broker import pk_command
from terminal import SIZES, Terminal, size_name

Run = Callable[..., Any]
Fresh = Callable[[str], str]
Start = Callable[..., Terminal]
SMALL, LARGE = SIZES
EACH_SIZE = pytest.mark.parametrize(
    "size", [SMALL, pytest.param(LARGE, marks=pytest.mark.slow)], ids=size_name
)


def editor(folder: Path, script: str) -> str:
    """A program that edits a file as its `script` (of the shell, the file in $1) says."""
    program = folder / "editor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


@pytest.mark.parametrize("end", ["ctrl-c", pytest.param("sigterm", marks=pytest.mark.slow)])
def test_up_in_the_foreground(terminal: Start, end: str) -> None:
    one = terminal("up", "--port", "0", "--memory")
    one.wait_for("ready")
    if end == "ctrl-c":
        one.keys("ctrl-c")
    else:
        one.signal(signal.SIGTERM)
    assert one.end() == (-signal.SIGINT if end == "ctrl-c" else 0)
    assert one.traces() == []


@EACH_SIZE
def test_consuming_until_interrupted(
    terminal: Start, at: Run, kafka: Kafka, fresh: Fresh, size: tuple[int, int]
) -> None:
    topic = fresh("followed")
    at("topics", "create", topic)
    at("produce", topic, stdin=b"first\n")
    one = terminal(
        "consume", topic, "--from-beginning", "-b", kafka.bootstrap, columns=size[0], lines=size[1]
    )
    one.wait_for("first")
    at("produce", topic, stdin=b"second\n")
    one.wait_for("second")
    one.keys("ctrl-c")
    assert one.end() == -signal.SIGINT
    assert one.traces() == []


def test_configs_in_an_editor(
    terminal: Start, at: Run, kafka: Kafka, fresh: Fresh, tmp_path: Path
) -> None:
    topic = fresh("edited")
    at("topics", "create", topic)
    program = editor(tmp_path, 'printf "\\nretention.ms=90000\\n" >> "$1"')
    one = terminal("configs", "edit", "topic", topic, "-b", kafka.bootstrap, EDITOR=program)
    text = one.wait_for("[y/N]")
    assert "retention.ms" in text and "90000" in text
    one.line("y")
    assert one.end() == 0
    assert one.traces() == []
    (reported,) = at("configs", "describe", "topic", topic, "-c", "retention.ms", "-f", "json").json
    assert reported["value"] == "90000"


@pytest.mark.slow
def test_what_an_editor_left_unchanged_changes_nothing(
    terminal: Start, at: Run, kafka: Kafka, fresh: Fresh, tmp_path: Path
) -> None:
    topic = fresh("unedited")
    at("topics", "create", topic)
    program = editor(tmp_path, "true")
    one = terminal("configs", "edit", "topic", topic, "-b", kafka.bootstrap, EDITOR=program)
    assert one.end() == 0
    assert "[y/N]" not in one.scrollback()


@pytest.mark.slow
def test_a_profile_in_an_editor(terminal: Start, tmp_path: Path) -> None:
    assert terminal("profile", "add", "here", "-b", "127.0.0.1:1").end() == 0
    program = editor(tmp_path, 'sed -i.bak s/127.0.0.1:1/127.0.0.1:2/ "$1"')
    one = terminal("profile", "edit", EDITOR=program)
    assert one.end() == 0, one.screen()
    assert one.traces() == []
    shown = terminal("profile", "show", "here")
    shown.wait_for("127.0.0.1:2")


@pytest.mark.slow
def test_watching_a_group(terminal: Start, at: Run, kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("shared"), fresh("team")
    at("topics", "create", topic, "-p", "2")
    first = terminal("consume", topic, "-g", group, "-b", kafka.bootstrap)
    waited = at("wait", "topic", topic)
    assert waited.code == 0
    while not at("groups", "members", group, "-f", "json").json:
        first.read(0.05)
    one = terminal("groups", "watch", group, "-b", kafka.bootstrap)
    one.wait_for(group)
    second = terminal("consume", topic, "-g", group, "-b", kafka.bootstrap)
    one.wait_for(lambda text: "join" in text.lower())
    second.keys("ctrl-c")
    assert second.end() == -signal.SIGINT
    one.keys("ctrl-c")
    assert one.end() == -signal.SIGINT
    assert one.traces() == []


@EACH_SIZE
@pytest.mark.parametrize(
    "words",
    [
        "topics list",
        *(pytest.param(w, marks=pytest.mark.slow) for w in ("cluster health", "groups list")),
    ],
)
def test_a_list_watched(terminal: Start, kafka: Kafka, size: tuple[int, int], words: str) -> None:
    one = terminal(
        *words.split(),
        "-w",
        "--interval",
        "0.2",
        "-b",
        kafka.bootstrap,
        columns=size[0],
        lines=size[1],
    )
    one.wait_for(f"pk {words}")
    assert one.screen_of.alternate
    one.resize(100, 30)
    one.wait_for(f"pk {words}")
    one.keys("ctrl-c")
    assert one.end() == -signal.SIGINT
    assert one.traces() == []


@pytest.mark.slow
def test_a_pipe_that_is_closed_is_no_failure(terminal: Start, kafka: Kafka) -> None:
    one = terminal(
        "-c",
        f'"$0" topics list -b {kafka.bootstrap} | head -0; echo "${{PIPESTATUS[0]}}"',
        pk_command()[0],
        program="bash",
    )
    assert one.end() == 0
    assert one.screen().strip() == "0"
