"""The shell on a real terminal: completion, history, Ctrl-C, the toolbar, results in every shape,
and the same tree."""

import re
import signal
import stat
import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from clients.fixtures import Kafka
from clients.pk_broker import running
from terminal import Terminal

Run = Callable[..., Any]
Fresh = Callable[[str], str]
Start = Callable[..., Terminal]


class Session(NamedTuple):
    """A shell that has loaded its names, and a topic of three records that it knows."""

    terminal: Terminal
    topic: str

    def run(self, line: str, wanted: str | re.Pattern[str] | Callable[[str], bool]) -> str:
        """Types a line and waits for its output and for the prompt."""
        self.terminal.line(line)
        shown = self.terminal.wait_for(wanted)
        self.terminal.wait_for(lambda text: prompt(text).endswith(">"))
        return shown

    def clear(self) -> None:
        """An empty screen: the prompt, and the toolbar."""
        self.terminal.keys("ctrl-u", "ctrl-l")
        self.terminal.wait_for(
            lambda text: (
                prompt(text).endswith(">") and len(list(filter(None, text.split("\n")))) == 2
            )
        )


def prompt(text: str) -> str:
    """The last nonempty line above the toolbar."""
    lines = [line for line in text.splitlines()[:-1] if line]
    return lines[-1] if lines else ""


@pytest.fixture
def shell(kafka: Kafka, at: Run, fresh: Fresh, terminal: Start) -> Session:
    """A shell of 80 by 24."""
    topic = fresh("shelf")
    at("topics", "create", topic, "-p", "2")
    at("produce", topic, "-p", "1", stdin=b"one\ntwo\nthree\n")
    one = terminal("shell", "-b", kafka.bootstrap, PAGER="cat")
    one.wait_for("under-replicated")
    return Session(one, topic)


def test_the_same_commands_with_toolbar_prompt_and_use(shell: Session, kafka: Kafka) -> None:
    one, topic = shell
    assert f"{kafka.bootstrap}>" in one.text
    assert "1 broker ·" in one.text and "0 under-replicated" in one.text
    shell.run(f"consume {topic} -e", lambda text: "three" in text and "3 records" in text)
    shell.run("topics lsit", "has no command 'lsit'")
    shell.run(f"topics describe {topic[:-1]}zz", "does not exist")
    shell.run(f"use topic {topic}", lambda text: f" {topic}>" in prompt(text))
    shell.run("consume -o -1..end -f '<%v>\\n'", "<three>")
    shell.run("topics offsets -f '{partition}:{end};' | cat", "0:0;1:3;")
    shell.run(f"use topic {topic[:-1]}zz", f"did you mean {topic}")
    shell.run(f"use topic {topic}", lambda text: f" {topic}>" in prompt(text))
    shell.run("use group a-group", lambda text: prompt(text).endswith(f"{topic} @a-group>"))
    shell.run("use", lambda text: topic not in prompt(text))
    shell.run("help topics offsets", "pk topics offsets orders")
    one.line("exit")
    assert one.end() == 0
    assert one.traces() == []


def test_completion_of_commands_names_configs_and_values(shell: Session) -> None:
    one, topic = shell
    one.send("topics descr")
    one.wait_for("Show partitions, replicas")
    one.keys("tab")
    one.wait_for("topics describe")
    one.send(f" {topic[:3]}{topic[-6:]}")  # letters in order are enough
    one.wait_for(lambda text: topic in text and "2 partitions" in text)
    one.keys("ctrl-u", f"configs alter topic {topic} -c retention.m")
    one.wait_for(lambda text: "retention.ms=" in text and "default 604800000 (7 days)" in text)
    one.keys("ctrl-u", "configs alter topic x -c compression.type=")
    one.wait_for("compression.type=zstd")
    one.keys("ctrl-u", "consume x -o start..@ye")
    one.wait_for("start..@yesterday")
    one.keys("ctrl-u", f"consume {topic} -p ")
    one.wait_for(lambda text: [line.strip() for line in text.splitlines()[1:]][:3].count("1") == 1)
    one.keys("ctrl-u", "topics list --sort -part")
    one.wait_for("-partitions")
    one.keys("ctrl-u")


def test_what_is_set_stands_beside_the_key(shell: Session, at: Run) -> None:
    one, topic = shell
    at("topics", "alter", topic, "-c", "retention.ms=12345", "-y")
    one.send(f"configs alter topic {topic} -c retention.ms")
    # The first look asks and does not wait; the menu is made again when the answer is there.
    one.wait_for("now 12345")
    one.keys("ctrl-u")


def test_results_in_every_shape(shell: Session, tmp_path: Path) -> None:
    one, topic = shell
    shown = shell.run(f"topics list {topic} \\G", "(1 row)")
    assert re.search(rf"^ +TOPIC  {topic}$", shown, re.MULTILINE)
    assert re.search(r"^ +INTERNAL  no$", shown, re.MULTILINE)
    file = tmp_path / "names"
    shell.run(f"topics list {topic} -f name > {file}", lambda text: file.exists())
    shell.run(
        f"topics list {topic} -f name >> {file}", lambda text: len(file.read_text().split()) == 2
    )
    shell.run(f"topics offsets {topic} -f name | wc -l | sed s/^/lines:/", re.compile(r"lines: *2"))
    shell.run("\\timing", "Timing is on.")
    shell.run("topics list -f name", re.compile(r"Time: [\d.]+ m?s"))
    shell.run("\\timing off", "Timing is off.")
    shell.run("\\nonsense", "The shell has no command \\nonsense")
    shell.run(f"use {topic}", "did you mean `use topic")
    shell.run("!ls", "The shell runs only commands of pk")
    shell.run(f"topics list {topic} | false", "[1]>")
    shell.run(f"topics list {topic} -f name | cat", re.compile(rf"^{topic}$", re.MULTILINE))
    shell.run("\\?", "a line for each value, every column")
    one.line("\\q")
    assert one.end() == 0


def test_what_is_too_tall_goes_to_the_pager(kafka: Kafka, terminal: Start, shell: Session) -> None:
    paged = terminal("shell", "-b", kafka.bootstrap, PAGER="sed s/^/paged:/")
    paged.wait_for("under-replicated")
    two = Session(paged, shell.topic)
    two.run(f"topics list {shell.topic}", re.compile(rf"^{shell.topic} ", re.MULTILINE))
    assert "paged:" not in paged.text
    two.run("help topics list", "paged:")
    two.clear()
    two.run("\\?", "paged:")
    two.clear()
    two.run("\\pager off", "The pager is off.")
    two.run("help topics list", "--columns")
    assert "paged:" not in paged.text


def test_watching_lights_what_changed(shell: Session, at: Run) -> None:
    one, topic = shell
    # A change is lit until the next look, which must not come before this test has looked.
    one.line(f"topics offsets {topic} \\w 2")
    one.wait_for("every 2 s")
    assert one.screen_of.alternate
    one.wait_for(lambda text: "3" in text)

    def lit(text: str) -> bool:
        at("produce", topic, "-p", "0", stdin=b"x\n")
        cells = [c for line in one.screen_of.buffer.values() for c in line.values()]
        return any(c.reverse and c.data.isdigit() for c in cells)

    one.wait_for(lit)
    one.keys("ctrl-c")
    one.wait_for(lambda text: not one.screen_of.alternate and prompt(text).endswith(">"))
    for endless in (
        f"consume {topic}",
        f"consume {topic} -g g -e",
        f"topics delete {topic}",
        "top",
    ):
        shell.clear()
        shell.run(f"{endless} \\w", "\\w cannot repeat pk")


def test_records_and_files_are_watched_too(shell: Session, at: Run, kafka: Kafka) -> None:
    (one, topic), numbers = shell, count()
    one.line(f"consume {topic} -p 0 -o -2..end -f '<%s>\\n' \\w 2")
    one.wait_for("every 2 s")

    def lit(text: str) -> bool:
        at("produce", topic, "-p", "0", stdin=b"more-%d\n" % next(numbers))
        return "<more-" in text and one.color_of("<more-").reverse

    one.wait_for(lit)
    one.keys("ctrl-c")
    one.wait_for(lambda text: not one.screen_of.alternate and prompt(text).endswith(">"))
    shell.clear()
    one.line(f"log dump {kafka.log_dir}/{topic}-0 --columns base_offset \\w 0.2")
    one.wait_for("every 0.2 s")
    one.wait_for("FIRST OFFSET")
    one.keys("ctrl-c")
    one.wait_for(lambda text: not one.screen_of.alternate and prompt(text).endswith(">"))


def test_ctrl_c_ends_the_command_and_not_the_shell(shell: Session) -> None:
    one, topic = shell
    one.line(f"consume {topic} --from-beginning")
    one.wait_for("three")
    one.keys("ctrl-c")
    one.wait_for(lambda text: prompt(text).endswith(">"))
    shell.clear()
    one.line("topics list -f name | (echo read''ing; exec sleep 600)")
    one.wait_for("reading")
    one.keys("ctrl-c")
    one.wait_for(lambda text: prompt(text).endswith(">"))
    shell.run(f"topics offsets {topic} -f '{{end}}!'", "0!3!")
    one.send("half a line")
    one.keys("ctrl-c")
    one.line("exit")
    assert one.end() == 0


def test_ctrl_c_commits_what_a_member_has_shown_and_takes_it_out_of_its_group(
    shell: Session, at: Run, fresh: Fresh
) -> None:
    one, topic = shell
    group = fresh("members")
    one.line(f"consume {topic} -g {group} --from-beginning -X auto.commit.interval.ms=600000")
    one.wait_for("three")
    at("produce", topic, "-p", "1", "four")
    one.wait_for("four")  # so the three are behind it
    one.keys("ctrl-c")
    one.wait_for(lambda text: prompt(text).endswith(">"))
    (state,) = at("groups", "describe", group, "--state", "-f", "json").json
    assert state["state"] == "Empty" and state["lag"] <= 1


def test_a_pipe_whose_reader_has_gone_is_no_error(shell: Session) -> None:
    """The error affects only the pipe: the shell continues to write to the terminal."""
    one, topic = shell
    shell.run("topics list -f '{topic:>200000}' | (exec 0<&-; echo has-''gone)", "has-gone")
    shell.run(f"topics offsets {topic} -f '{{end}}!'", "0!3!")
    assert "roken pipe" not in one.text


def test_the_pager_has_the_ctrl_c(kafka: Kafka, terminal: Start) -> None:
    one = terminal(
        "shell",
        "-b",
        kafka.bootstrap,
        PAGER="sh -c 'cat >/dev/null; echo in-pager; exec sleep 600'",
    )
    one.wait_for("under-replicated")
    one.line("help topics list")
    one.wait_for("in-pager")
    one.keys("ctrl-c")
    one.wait_for(lambda text: prompt(text).endswith(">"))
    one.line("exit")
    assert one.end() == 0


def test_signals_at_any_moment_do_not_end_the_shell(shell: Session) -> None:
    """Signals arrive as fast as possible while lines are read, parsed, run, shown and
    redirected."""
    one, topic = shell
    for line in (
        f"topics describe {topic}",
        "help",
        "nonsense",
        "topics list | cat",
        "profile list",
        "",
    ):
        one.send(line + "\r")
        for _ in range(40):
            one.signal(signal.SIGINT)
            one.read(0.001)

    def cleared(text: str) -> bool:
        # The shell may handle the last signal after keys that were typed later, and show a new
        # prompt.
        lines = [line for line in text.splitlines() if line]
        if prompt(text).endswith(">") and len(lines) == 2:
            return True
        one.keys("ctrl-u", "ctrl-l")
        return False

    one.wait_for(cleared)
    shell.run(f"topics offsets {topic} -f '{{end}}!'", "0!3!")
    one.line("exit")
    assert one.end() == 0
    assert b"Traceback" not in one.output, one.output[-6000:].decode()
    assert one.traces() == []


def test_sigterm_leaves_the_terminal_as_it_was(shell: Session) -> None:
    one, _ = shell
    one.send("topics desc")
    one.wait_for("Show partitions, replicas")
    one.signal(signal.SIGTERM)
    assert one.end() == 143
    assert b"Traceback" not in one.output
    assert one.traces() == []


def test_sigterm_ends_the_command_that_runs(shell: Session) -> None:
    one, topic = shell
    one.line(f"consume {topic} --from-beginning")
    one.wait_for("three")
    one.signal(signal.SIGTERM)
    assert one.end() == 143
    assert b"bug in pk" not in one.output and b"Traceback" not in one.output


def test_a_change_asks_and_names_the_cluster(shell: Session, kafka: Kafka) -> None:
    one, topic = shell
    one.line(f"topics delete {topic}")
    shown = one.wait_for("[y/N]")
    assert kafka.bootstrap in shown.replace("\n", "").split("topics delete")[-1]
    one.line("n")
    one.wait_for("Nothing was changed.")
    shell.clear()
    one.line(f"topics delete {topic}")
    one.wait_for("[y/N]")
    one.keys("ctrl-c")
    one.wait_for(lambda text: prompt(text).endswith(">"))
    shell.clear()
    one.line(f"topics delete {topic}")
    one.wait_for("[y/N]")
    one.line("y")
    one.wait_for("deleted")


def test_a_command_of_c_asks_at_a_terminal(kafka: Kafka, terminal: Start, shell: Session) -> None:
    words = f"topics delete {shell.topic}"
    one = terminal("shell", "-b", kafka.bootstrap, "-c", words)
    one.wait_for("[y/N]")
    one.line("n")
    one.wait_for("Nothing was changed.")


def test_a_command_of_a_script_that_would_ask_is_refused(at: Run, shell: Session) -> None:
    ran = at("shell", stdin=f"topics delete {shell.topic}\n".encode())
    assert ran.code and "-y" in ran.err
    assert at("topics", "list", shell.topic, "-f", "name").lines == [shell.topic]


def test_what_is_typed_after_ctrl_c_is_the_next_line(shell: Session, at: Run) -> None:
    """It neither answers the question that Ctrl-C ended nor presses keys of a screen that
    closes."""
    one, topic = shell
    one.line(f"topics delete {topic}")
    one.wait_for("[y/N]")
    one.send("\x03y\r")
    one.wait_for("has no command 'y'")
    assert at("topics", "list", topic, "-f", "name").lines == [topic]
    shell.clear()
    one.line("top")
    one.wait_for(lambda text: one.screen_of.alternate and "BROKER" in text)
    one.send("\x03nonsense\r")
    one.wait_for("has no command 'nonsense'")


def test_history_outlives_the_shell_without_secrets(
    shell: Session, terminal: Start, kafka: Kafka, tmp_path: Path
) -> None:
    one, topic = shell
    shell.run(f"topics offsets {topic} -f 'first {{end}} '", "first 0 first 3")
    shell.run(
        f"topics list {topic} -X ssl.key.password=hush -f 'listed {{topic}} '", f"listed {topic}"
    )
    one.line("exit")
    assert one.end() == 0
    file = tmp_path / "xdg_state_home" / "pk" / "history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "hush" not in file.read_text()
    two = terminal("shell", "-b", kafka.bootstrap)
    two.wait_for("under-replicated")
    two.send("topics off")
    two.wait_for("topics offsets")  # the grey suggestion
    two.keys("right", "enter")
    two.wait_for("first 0 first 3")
    two.wait_for(lambda text: prompt(text) == f"{kafka.bootstrap}>")  # in a line of its own
    two.keys("ctrl-r", "offse")
    two.wait_for("reverse-i-search")
    two.wait_for(lambda text: f"topics offsets {topic}" in text.split("reverse-i-search")[-1])
    two.keys("ctrl-c")
    two.line("exit")
    assert two.end() == 0


def test_a_cluster_that_does_not_run(terminal: Start) -> None:
    one = terminal("shell", "-b", "127.0.0.1:1")
    one.wait_for("not connected")
    one.line("topics list")
    one.wait_for("127.0.0.1:1 does not answer; trying again")
    one.keys("ctrl-c")
    assert "is lost" not in one.scrollback()
    one.line("help positions")
    one.wait_for("A..B")


def test_a_dumb_terminal_gets_lines(kafka: Kafka, terminal: Start, fresh: Fresh) -> None:
    one = terminal("shell", "-b", kafka.bootstrap, TERM="dumb")
    one.wait_for(f"{kafka.bootstrap}>")
    one.line("topics list \\G")
    one.wait_for(re.compile(r"\(\d+ rows?\)"))
    one.send("half a line")
    one.wait_for("half a line")
    one.keys("ctrl-c")
    one.wait_for(lambda text: text.splitlines()[-1] == f"{kafka.bootstrap}>")
    one.line("topics lsit")
    one.wait_for("has no command 'lsit'")
    one.line("consume nothing-of-this-name")
    one.wait_for("does not exist")
    one.wait_for(lambda text: text.splitlines()[-1] == f"{kafka.bootstrap} [1]>")
    one.keys("ctrl-d")
    assert one.end() == 0
    assert b"\x1b" not in one.output


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (40, 10)])
def test_no_color_and_any_size(kafka: Kafka, terminal: Start, size: tuple[int, int]) -> None:
    columns, lines = size
    one = terminal("shell", "-b", kafka.bootstrap, columns=columns, lines=lines, NO_COLOR="1")
    one.wait_for(">")
    one.line("topics lsit")
    one.wait_for("has no command")
    one.send("topics ")
    one.wait_for("describe")
    assert one.colors == set()
    one.resize(100, 30)
    one.keys("ctrl-u", "groups ")
    one.wait_for(lambda text: "reset-offsets" in text and len(text.splitlines()) == 30)


def test_a_profile_is_seen_and_can_be_changed(
    kafka: Kafka, at: Run, terminal: Start, tmp_path: Path
) -> None:
    at("profile", "add", "prod", "-b", kafka.bootstrap, "--color", "red", "--guard", "readonly")
    at("profile", "add", "play", "-b", kafka.bootstrap)
    one = terminal("shell", "--profile", "prod", PK_BOOTSTRAP_SERVER=None)
    one.wait_for("1 broker")
    assert "guarded as readonly" in one.text
    assert one.color_of("prod>").fg == "red"
    bar = one.screen_of.display.index(next(x for x in one.screen_of.display if "1 broker" in x))
    assert one.cell(2, bar).bg == "red"
    one.line("topics create never-made")
    one.wait_for("read-only")
    one.line("use profile paly")
    one.wait_for("did you mean play")
    one.line("use profile play")
    one.wait_for("play>")
    one.wait_for(lambda text: "readonly" not in text.splitlines()[-1])
    assert at("topics", "list", "never-made", "-f", "name").text == ""


def test_bytes_that_are_no_text(shell: Session, at: Run) -> None:
    one, topic = shell
    at(
        "produce",
        topic,
        "-p",
        "0",
        "-f",
        "jsonl",
        stdin=b'{"key_b64": "//4A", "value_b64": "gIGC"}\n',
    )
    shell.run(f"consume {topic} -e -f '[%k]%v\\n'", "three")
    shell.run("topics list", topic)
    assert b"Traceback" not in one.output


# Scripts


def test_lines_from_a_pipe(at: Run, fresh: Fresh, tmp_path: Path) -> None:
    topic = fresh("piped")
    file = tmp_path / "out"
    lines = f"""# a comment
topics create {topic}

use topic {topic}
topics offsets -f name > {file}
topics \\
  offsets -f name
up
nonsense
"""
    ran = at("shell", stdin=lines.encode())
    assert ran.text.splitlines()[-1] == topic
    assert file.read_text() == f"{topic}\n"
    assert "does not work in the shell" in ran.err and "nonsense" in ran.err
    assert ran.code == 2


def test_the_exit_code_is_that_of_the_first_failure(at: Run, fresh: Fresh) -> None:
    topic = fresh("first")
    refused = f"topics delete {topic}"
    ran = at(
        "shell",
        "-c",
        f"topics create {topic}",
        "-c",
        refused,
        "-c",
        "nonsense",
        "-c",
        "topics list -f name",
    )
    assert ran.code == 5
    assert topic in ran.lines
    ran = at("shell", "--stop-on-error", "-c", refused, "-c", "topics list")
    assert (ran.code, ran.out) == (5, b"")
    ran = at("shell", "-c", "exit", "-c", "nonsense")
    assert ran.code == 0


def test_a_line_goes_on_and_holds_several_commands(shell: Session) -> None:
    one, topic = shell.terminal, shell.topic
    one.line("topics list -f name \\")
    one.line("--where 'topic = nowhere'; topics list -f name && nonsense && topics list")
    one.wait_for("pk has no command 'nonsense'")
    said = one.scrollback()
    assert "A quote is not closed" not in said
    assert any(row.strip() == topic for row in said.splitlines())
    one.line("exit")
    assert one.end() == 0


def test_several_commands_of_a_script(at: Run) -> None:
    ran = at("shell", "-c", "help positions && help formats; nonsense && help trace")
    assert (ran.code, "A..B" in ran.text, "jsonl" in ran.text) == (2, True, True)
    assert "--trace" not in ran.text


def test_a_script_is_not_what_its_commands_read(at: Run, fresh: Fresh) -> None:
    topic = fresh("unread")
    lines = f"topics create {topic}\nproduce {topic}\ntopics offsets {topic} -f '{{end}}'\n"
    ran = at("shell", stdin=lines.encode())
    assert ran.text.endswith("0")
    ran = at("shell", "-c", f"produce {topic}", stdin=b"a record\n")
    assert at("topics", "offsets", topic, "-f", "{end}").text == "1"


def test_ctrl_c_ends_a_script_that_waits_for_its_next_line(kafka: Kafka) -> None:
    with running("shell", "-b", kafka.bootstrap, stdin=subprocess.PIPE) as script:
        assert script.stdin is not None and script.stdout is not None and script.stderr is not None
        script.stdin.write("help positions\n")
        script.stdin.flush()
        assert script.stdout.readline()
        script.send_signal(signal.SIGINT)
        assert script.wait(60) == -signal.SIGINT
        assert script.stderr.read() == ""


# Terminals outside the shell


def test_a_question_on_a_terminal_outside_the_shell(
    at: Run, kafka: Kafka, fresh: Fresh, terminal: Start
) -> None:
    topic = fresh("asked")
    at("topics", "create", topic)
    one = terminal("topics", "delete", topic, "-b", kafka.bootstrap)
    one.wait_for("[y/N]")
    one.keys("enter")
    assert one.end() == 5
    assert at("topics", "list", topic, "-f", "name").text == f"{topic}\n"
    two = terminal("topics", "delete", topic, "-b", kafka.bootstrap)
    two.wait_for("[y/N]")
    two.line("y")
    two.wait_for("deleted")
    assert two.end() == 0


def test_tables_on_a_terminal_fit_it_and_ctrl_c_is_130(
    at: Run, kafka: Kafka, fresh: Fresh, terminal: Start
) -> None:
    topic = fresh("t" * 60)
    at("topics", "create", topic)
    one = terminal("topics", "describe", topic, "-b", kafka.bootstrap, NO_COLOR="1")
    one.wait_for("PARTITION")
    assert one.end() == 0
    at("produce", topic, "x marks it")
    two = terminal("consume", topic, "-b", kafka.bootstrap, "--from-beginning")
    two.wait_for("x marks it")
    two.keys("ctrl-c")
    assert two.end() == -signal.SIGINT


def test_isr_watches_until_interrupted(
    at: Run, kafka: Kafka, fresh: Fresh, terminal: Start
) -> None:
    one = terminal("isr", "-w", "-b", kafka.bootstrap, "-f", "{topic} {event}\\n")
    topic = fresh("watched")

    def seen(text: str) -> bool:
        # A topic made before the first look would be no news: each round makes another.
        if "made" not in text:
            at("topics", "create", fresh(topic))
        return "made" in text

    one.wait_for(seen)
    one.keys("ctrl-c")
    assert one.end() == -signal.SIGINT
