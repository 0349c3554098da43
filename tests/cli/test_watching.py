"""`-w`: highlighted cells, the output in a pipe, and the terminal during and after the command."""

import contextlib
import json
import re
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker, running
from terminal import Terminal

from pk.cli.command_line.parse import parse
from pk.cli.command_line.tree import Command, commands, tree
from pk.cli.exits import UsageError
from pk.cli.output.formats import Column, Document, Listing, OutputOptions, Section
from pk.cli.runtime.watch import Snapshot, changed_cells, painted_lines
from pk.core.durations import Duration

Open = Callable[..., Terminal]
Run = Callable[..., Any]
Fresh = Callable[[str], str]

_COLUMNS = (Column("topic"), Column("partition"), Column("lag"))


def listing(*rows: tuple[str, int, int]) -> Listing:
    return Listing(_COLUMNS, [{"topic": t, "partition": p, "lag": lag} for t, p, lag in rows])


# Highlighted cells


def test_a_cell_is_lit_when_its_row_showed_something_else() -> None:
    before = listing(("a", 0, 1), ("a", 1, 2), ("b", 0, 3))
    now = listing(("b", 0, 3), ("a", 0, 1), ("a", 1, 9))  # in another order
    assert changed_cells(before, now) == {(2, 2)}
    assert changed_cells(None, now) == set()
    assert changed_cells(now, now) == set()


def test_a_new_row_is_lit_and_one_that_is_gone_leaves_nothing() -> None:
    before = listing(("a", 0, 1), ("b", 0, 3))
    assert changed_cells(before, listing(("a", 0, 1), ("c", 0, 3))) == {(1, 0), (1, 1), (1, 2)}
    assert changed_cells(before, listing(("b", 0, 3))) == set()


def test_rows_that_nothing_tells_apart_are_told_by_their_place() -> None:
    same = Listing((Column("state"),), [{"state": "up"}, {"state": "up"}])
    other = Listing((Column("state"),), [{"state": "up"}, {"state": "down"}])
    assert changed_cells(other, same) == {(1, 0)}


def test_other_columns_light_nothing() -> None:
    assert changed_cells(Listing((Column("x"),), [{"x": 1}]), listing(("a", 0, 1))) == set()


def test_the_painted_table_has_what_changed_in_reverse() -> None:
    look = OutputOptions(terminal=True, width=60)
    first = Snapshot([listing(("a", 0, 1), ("a", 1, 2))], (), 0)
    second = Snapshot([listing(("a", 0, 1), ("a", 1, 7))], (), 1)
    assert not any("\x1b[7m" in line for line in painted_lines(first, None, look))
    lit = [line for line in painted_lines(second, first, look) if "\x1b[7m" in line]
    assert len(lit) == 1 and "\x1b[7m7" in lit[0]


def test_every_section_of_a_description_is_compared_with_its_own() -> None:
    def described(lag: int) -> Snapshot:
        body = Listing(_COLUMNS, listing(("a", 0, lag)).rows)
        document = Document(
            [{}], [Section("one", listing(("a", 0, 1))), Section("two", body)], body
        )
        return Snapshot([document], (), 0)

    lines = painted_lines(described(5), described(4), OutputOptions(terminal=True, width=60))
    lit = [i for i, line in enumerate(lines) if "\x1b[7m" in line]
    assert len(lit) == 1 and lit[0] > lines.index("two")


def test_other_formats_light_the_lines_that_are_new() -> None:
    look = OutputOptions(format="json", terminal=True, width=60)
    lines = painted_lines(
        Snapshot([listing(("a", 0, 2))], (), 1), Snapshot([listing(("a", 0, 1))], (), 0), look
    )
    assert [line for line in lines if "\x1b[7m" in line] == ['\x1b[7m    "lag": 2\x1b[0m']


# The option


def every(interval: str) -> tuple[str, ...]:
    """The options that repeat a command."""
    return ("-w", "--interval", interval)


@pytest.mark.parametrize(
    ("words", "ms"),
    [
        ("topics list -w", 2000),
        ("topics list --watch orders", 2000),
        ("topics list -w --interval 5 orders", 5000),
        ("topics list orders --interval=500ms -w", 500),
        ("topics list -w --interval 1.5m", 90_000),
        ("isr -w", 500),
        ("reassign status -w", 1000),
    ],
)
def test_interval_says_how_often(words: str, ms: int) -> None:
    values = parse(words.split()).values
    assert values["watch" if "repeat" not in values else "repeat"] is True
    assert values["interval"] == Duration(ms)
    assert values.get("pattern") == ("orders" if "orders" in words else None)


@pytest.mark.parametrize("value", ["0", "0.01", "x", "-1", "", "86401", "25h"])
@pytest.mark.parametrize("command", ["topics list", "isr", "reassign status"])
def test_what_is_no_time_or_no_pause_is_refused(command: str, value: str) -> None:
    with pytest.raises(UsageError, match="--interval needs a duration"):
        parse([*command.split(), "-w", f"--interval={value}"])


@pytest.mark.parametrize("command", ["topics list", "isr", "reassign status"])
def test_an_interval_without_w_is_refused(command: str, pk: Callable[..., Any]) -> None:
    ran = pk(*command.split(), "--interval", "5", "-b", "127.0.0.1:1")
    assert (ran.code, ran.err) == (2, "--interval has no effect without -w.\n")


def test_what_shows_and_changes_nothing_can_be_watched() -> None:
    """All lists and descriptions. Commands that change something or stream cannot be watched."""
    watched = {
        " ".join(path)
        for path, command in commands(tree())
        if isinstance(command, Command)
        and any(o.dest in ("repeat", "watch") for o in command.options)
    }
    assert watched >= {
        "topics list",
        "topics describe",
        "topics offsets",
        "groups list",
        "groups describe",
        "groups lag",
        "partitions list",
        "isr",
        "reassign status",
        "brokers list",
        "brokers describe",
        "brokers logdirs",
        "cluster describe",
        "cluster health",
        "cluster quorum",
        "configs list",
        "configs describe",
        "transactions producers",
    }
    for path, command in commands(tree()):
        if " ".join(path) in watched:
            assert not any(o.dest in ("dry_run", "yes") for o in command.options), path


# Watching in a pipe


def piped(kafka: Kafka, *words: str) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    return running(*words, "-b", kafka.bootstrap)


def test_a_pipe_gets_each_state_that_is_another(at: Run, kafka: Kafka, fresh: Fresh) -> None:
    name = fresh("watched")
    at("topics", "create", name, "-p", "1")
    with piped(kafka, "topics", "describe", name, *every("0.1"), "-f", "json") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert first[0]["partition_count"] == 1
        at("topics", "add-partitions", name, "-p", "3", "-y")
        second = json.loads(process.stdout.readline())
        assert second[0]["partition_count"] == 3
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (-signal.SIGINT, "", "")


def test_a_table_in_a_pipe_stands_below_the_time(at: Run, kafka: Kafka, fresh: Fresh) -> None:
    name = fresh("watched")
    at("topics", "create", name, "-p", "1")
    with piped(kafka, "topics", "list", name, *every("0.1")) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines[0][:2] == "20" and lines[0][10] == "T"
        assert lines[1].split() == ["TOPIC", "PARTITIONS", "REPLICAS"]
        assert lines[2].split() == [name, "1", "1"]
        at("topics", "delete", name, "-y")
        again = [process.stdout.readline() for _ in range(3)]
        assert again[0] == "\n" and again[2].split() == lines[1].split()


def test_csv_in_a_pipe_has_one_head(at: Run, kafka: Kafka, fresh: Fresh) -> None:
    name = fresh("watched")
    at("topics", "create", name, "-p", "1")
    words = (
        "topics",
        "list",
        name,
        *every("0.1"),
        "-f",
        "csv",
        "--columns",
        "topic,partitions",
    )
    with piped(kafka, *words) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "topic,partitions\n"
        assert process.stdout.readline() == f"{name},1\n"
        at("topics", "add-partitions", name, "-p", "2", "-y")
        assert process.stdout.readline() == f"{name},2\n"


def test_only_the_first_look_may_fail(at: Run) -> None:
    ran = at("topics", "describe", "no-such-topic-at-all", *every("0.1"))
    assert ran.code == 1 and "no-such-topic-at-all" in ran.err


# On a terminal


def test_what_changed_is_lit_and_the_last_table_stays(
    at: Run, terminal: Open, kafka: Kafka, fresh: Fresh
) -> None:
    name = fresh("watched")
    at("topics", "create", name, "-p", "1")
    screen = terminal("topics", "list", name, *every("0.3"), PK_BOOTSTRAP_SERVER=kafka.bootstrap)
    screen.wait_for("every 0.3 s")
    assert screen.screen_of.alternate
    at("topics", "add-partitions", name, "-p", "37", "-y")
    screen.wait_for(" 37 ")
    screen.wait_for(lambda _: re.search(rb"7m *37", screen.output) is not None)
    screen.keys("ctrl-c")
    assert (screen.end(), screen.traces()) == (-signal.SIGINT, [])
    shown = screen.screen()
    assert name in shown and " 37 " in shown and "every" not in shown
    assert shown.count(name) == 1


def test_a_table_that_is_too_tall_is_cut_while_it_lasts_and_whole_at_the_end(
    at: Run, terminal: Open, kafka: Kafka, fresh: Fresh
) -> None:
    name = fresh("watched")
    at("topics", "create", name, "-p", "60")
    screen = terminal("topics", "offsets", name, *every("5"), PK_BOOTSTRAP_SERVER=kafka.bootstrap)
    shown = screen.wait_for("more lines (↓, --limit")
    assert len(shown.splitlines()) == 24
    screen.resize(80, 40)
    screen.wait_for(lambda text: len(text.splitlines()) == 40)
    screen.resize(80, 24)
    screen.wait_for(lambda text: len(text.splitlines()) == 24)
    screen.keys("page-down", "page-down", "page-down", "page-down")
    screen.wait_for(
        lambda text: "more lines" not in text and re.search(r" 59 +0", text) is not None
    )
    screen.keys("q")
    assert (screen.end(), screen.traces()) == (0, [])
    whole = [line.split() for line in screen.scrollback().splitlines()]
    assert [words[1] for words in whole if words[:1] == [name]] == [str(n) for n in range(60)]


@pytest.mark.slow  # `pk top` has the same in the everyday run
def test_a_broker_that_dies_leaves_the_picture_and_is_looked_for_again(terminal: Open) -> None:
    with PkBroker() as broker:
        screen = terminal("brokers", "list", *every("0.3"), "-b", broker.bootstrap)
        screen.wait_for(" up ")
        broker.kill()
        screen.wait_for("As of ")
        assert " up " in screen.screen()
        broker.start()
        screen.wait_for(lambda text: "As of " not in text and " up " in text)
        screen.signal(signal.SIGTERM)
        assert (screen.end(), screen.traces()) == (130, [])


def test_a_dumb_terminal_gets_blocks(terminal: Open, pk_kafka: Kafka) -> None:
    screen = terminal(
        "brokers",
        "list",
        *every("0.2"),
        PK_BOOTSTRAP_SERVER=pk_kafka.bootstrap,
        TERM="dumb",
    )
    screen.wait_for("BROKER")
    screen.keys("ctrl-c")
    assert (screen.end(), screen.traces()) == (-signal.SIGINT, [])
    assert b"\x1b" not in screen.output
