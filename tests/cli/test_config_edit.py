"""`pk configs edit`: the text that the editor gets, the changes that are sent, and that no typed
text is lost."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clients.fixtures import Kafka
from hypothesis import given
from hypothesis import strategies as st
from terminal import Terminal

from pk.cli.nouns.configs.edit import as_property
from pk.core.config.keys import parse_properties

Run = Callable[..., Any]
Fresh = Callable[[str], str]
Editor = Callable[[str], None]


@pytest.fixture
def topic(at: Run, fresh: Fresh) -> str:
    name = fresh("edit")
    at("topics", "create", name, "-c", "retention.ms=604800000", "-c", "max.message.bytes=2000000")
    return name


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    """`editor(script)` sets an editor that applies a sed script to the text and saves the text that
    it got in the file `shown`."""
    file = tmp_path / "editor.sh"

    def use(script: str) -> None:
        (tmp_path / "script.sed").write_text(script)
        file.write_text(
            f'#!/bin/sh\ncp "$1" {tmp_path}/shown\nexec sed -i -f {tmp_path}/script.sed "$1"\n'
        )
        file.chmod(0o700)
        monkeypatch.setenv("VISUAL", str(file))

    return use


def configs(at: Run, topic: str) -> dict[str, str]:
    rows = at("configs", "describe", "topic", topic, "-f", "json").json
    return {row["name"]: row["value"] for row in rows if row["source"] == "topic"}


def kept(said: str) -> Path:
    found = re.search(r"Your text is in (\S+);", said)
    assert found, said
    return Path(found[1])


@given(st.text())
def test_a_value_stands_in_the_text_as_it_is_read_from_there(value: str) -> None:
    assert parse_properties(f"key={as_property(value)}\n") == {"key": value}


def test_how_to_go_on_is_a_command_line_for_names_with_blanks(at: Run, editor: Editor) -> None:
    editor("s/^#consumer.heartbeat.interval.ms=.*/consumer.heartbeat.interval.ms=x/")
    ran = at("configs", "edit", "group", "my group", "-y")
    assert f"`pk configs edit group 'my group' --file {kept(ran.err)}` opens it" in ran.err


def test_only_what_differs_is_sent(at: Run, topic: str, editor: Editor, tmp_path: Path) -> None:
    editor("s/^retention.ms=.*/retention.ms=1000/\ns/^#cleanup.policy=.*/cleanup.policy=compact/")
    ran = at("configs", "edit", "topic", topic, "-y", "--trace-json", "-f", "json")
    assert ran.code == 0
    assert configs(at, topic) == {
        "retention.ms": "1000",
        "max.message.bytes": "2000000",
        "cleanup.policy": "compact",
    }
    assert {row["name"] for row in ran.json} == {"retention.ms", "cleanup.policy"}
    assert "-retention.ms=604800000".replace("-", "- ", 1) in ran.err
    assert "+ retention.ms=1000" in ran.err
    assert '"api": "IncrementalAlterConfigs"' in ran.err
    shown = (tmp_path / "shown").read_text()
    assert "retention.ms=604800000" in shown.splitlines()
    assert "#cleanup.policy=delete" in shown.splitlines()
    assert "(7 days)" in at("configs", "describe", "topic", topic, "-a", "-v").text


def test_a_line_removed_goes_back_to_the_default(at: Run, topic: str, editor: Editor) -> None:
    editor("/^retention.ms=/d\ns/^max.message.bytes/#max.message.bytes/")
    ran = at("configs", "edit", "topic", topic, "-y")
    assert ran.code == 0 and configs(at, topic) == {}
    assert "retention.ms is reset to its default" in ran.err
    assert "pk undo" in ran.err


def test_nothing_changed_does_nothing(at: Run, topic: str, editor: Editor) -> None:
    editor("")
    ran = at("configs", "edit", "topic", topic)
    assert ran.code == 0 and "Nothing was edited" in ran.err
    edits = Path(os.environ["XDG_STATE_HOME"]) / "pk" / "edits"
    assert not list(edits.iterdir())


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("s/^retention.ms=/retention.mss=/", "did you mean retention.ms"),
        ("s/^#cleanup.policy=.*/cleanup.policy=compat/", "cleanup.policy"),
        ("$a\\\nretention.ms=5", "retention.ms is set twice"),
        ("s/^retention.ms=.*/retention.ms=x/", "retention.ms"),
    ],
)
def test_what_is_refused_is_kept_and_gone_on_from(
    at: Run, topic: str, editor: Editor, script: str, said: str
) -> None:
    before = configs(at, topic)
    editor(script)
    ran = at("configs", "edit", "topic", topic, "-y")
    assert ran.code == 1
    assert said in ran.err
    assert configs(at, topic) == before
    file = kept(ran.err)
    assert oct(file.stat().st_mode)[-3:] == "600"
    assert f"`pk configs edit topic {topic} --file {file}` opens it again" in ran.err
    file.write_text("retention.ms=7\nmax.message.bytes=2000000\n")
    ran = at("configs", "edit", "topic", topic, "--file", str(file), "-y")
    assert ran.code == 0 and configs(at, topic) == {**before, "retention.ms": "7"}
    assert file.exists()


def test_no_answer_changes_nothing_and_keeps_the_text(at: Run, topic: str, editor: Editor) -> None:
    editor("s/^retention.ms=.*/retention.ms=1000/")
    ran = at("configs", "edit", "topic", topic)
    assert ran.code == 5 and "retention.ms=1000" in kept(ran.err).read_text()
    ran = at("configs", "edit", "topic", topic, "-d", "-f", "json")
    assert ran.code == 0 and ran.json[0]["result"] == "would change"
    assert configs(at, topic)["retention.ms"] == "604800000"


def test_what_another_changed_meanwhile_is_not_overwritten(
    at: Run, topic: str, tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clients.pk_broker import pk_command

    other = " ".join(
        pk_command("configs", "alter", "topic", topic, "-c", "retention.ms=5", "-y", "-b")
    )
    script = tmp_path / "other.sh"
    script.write_text(
        f"#!/bin/sh\n{other} {kafka.bootstrap} >/dev/null 2>&1\nexec sed -i "
        's/^retention.ms=.*/retention.ms=9/ "$1"\n'
    )
    script.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(script))
    ran = at("configs", "edit", "topic", topic, "-y")
    assert ran.code == 5
    assert "was changed in the meantime, from '604800000' to '5'" in ran.err
    assert configs(at, topic)["retention.ms"] == "5"
    assert "retention.ms=9" in kept(ran.err).read_text()


def test_an_editor_that_fails_or_is_missing(
    at: Run, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "false")
    ran = at("configs", "edit", "topic", topic, "-y")
    assert ran.code == 1 and "false failed with exit code 1; the text is in " in ran.err
    monkeypatch.setenv("VISUAL", "no-such-editor")
    ran = at("configs", "edit", "topic", topic, "-y")
    assert ran.code == 1 and "set $EDITOR to another" in ran.err


def test_at_a_terminal_it_asks_and_edits_again(
    at: Run, topic: str, editor: Editor, tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    editor("s/^retention.ms=.*/retention.ms=x/")
    screen = terminal("configs", "edit", "topic", topic, VISUAL=os.environ["VISUAL"])
    screen.wait_for("Edit it again? [Y/n]")
    (tmp_path / "script.sed").write_text("s/^retention.ms=.*/retention.ms=1000/\n")
    screen.send("\r")
    screen.wait_for("+ retention.ms=1000")
    screen.wait_for("[y/N]")
    screen.send("y\r")
    assert screen.end() == 0
    assert configs(at, topic)["retention.ms"] == "1000"
    assert not screen.traces()


def test_ctrl_c_at_the_question_keeps_the_text(
    at: Run, topic: str, editor: Editor, terminal: Callable[..., Terminal]
) -> None:
    editor("s/^retention.ms=.*/retention.ms=1000/")
    screen = terminal(
        "configs", "edit", "topic", topic, columns=200, lines=50, VISUAL=os.environ["VISUAL"]
    )
    screen.wait_for("[y/N]")
    screen.keys("ctrl-c")
    assert screen.end() == -signal.SIGINT
    assert "Your text is in" in screen.screen()
    assert configs(at, topic)["retention.ms"] == "604800000"


def test_nothing_is_written_over_an_editor_that_stays_open(
    topic: str, tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    """The editor stays open for longer than a change may take before its command says "Working, 1
    s"."""
    editor = tmp_path / "editor.sh"
    editor.write_text("#!/bin/sh\nprintf 'the editor draws'\nsleep 2.5\nprintf ' and ends\\n'\n")
    editor.chmod(0o700)
    screen = terminal("configs", "edit", "topic", topic, VISUAL=str(editor))
    screen.wait_for("Nothing was edited")
    assert screen.end() == 0
    assert "the editor draws and ends" in screen.screen()
    assert "Working" not in screen.screen()


def test_all_brokers_default_is_edited_too(at: Run, editor: Editor) -> None:
    editor("$a\\\nlog.cleaner.threads=2")
    try:
        ran = at("configs", "edit", "broker", "default", "-y", "-f", "json")
        assert ran.code == 0, ran.err
        assert ran.json[0]["name"] == "log.cleaner.threads"
    finally:
        at("configs", "alter", "broker", "default", "--delete", "log.cleaner.threads", "-y")


def test_describe_names_the_nearest_key(at: Run, topic: str) -> None:
    ran = at("configs", "describe", "topic", topic, "-c", "rentention.ms")
    assert ran.code == 1
    assert "did you mean retention.ms" in ran.err


def test_a_value_that_the_broker_refuses_is_refused_before_the_question(
    at: Run, topic: str
) -> None:
    ran = at("configs", "alter", "topic", topic, "-c", "retention.ms=x", "-y")
    assert ran.code == 1 and "retention.ms" in ran.err and "→" not in ran.err
    ran = at("topics", "alter", topic, "-c", "retention.ms=x", "-p", "5", "-y")
    assert ran.code == 1
    assert at("topics", "list", topic, "-f", "json").json[0]["partitions"] == 1


def test_partitions_and_configs_are_changed_under_one_question(at: Run, topic: str) -> None:
    ran = at("topics", "alter", topic, "-p", "3", "-c", "retention.ms=5", "-y", "-f", "json")
    assert [(row["name"], row["to"]) for row in ran.json] == [
        ("partitions", "3"),
        ("retention.ms", "5"),
    ]
