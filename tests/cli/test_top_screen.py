"""`pk top` on a terminal and without one, against a live broker: its screens, its keys, and the
terminal after its end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker, pk_command
from terminal import SIZES, Terminal

Open = Callable[..., Terminal]
Run = Callable[..., Any]
Fresh = Callable[[str], str]

FOOT = "q quit"


def line(text: str, number: int) -> str:
    """A line of the screen; empty if the screen has fewer lines."""
    lines = text.splitlines()
    return lines[number] if -len(lines) <= number < len(lines) else ""


def fills(lines: int) -> Callable[[str], bool]:
    """Whether the screen has exactly `lines` lines, with the keys on the last."""
    return lambda text: len(text.splitlines()) == lines and "1-6 tabs" in line(text, -1)


@pytest.fixture
def top(terminal: Open, kafka: Kafka) -> Open:
    """`top(*words, …)`: `pk top` against the broker under test."""
    return lambda *words, **options: terminal(
        "top", *words, "--interval", "0.5", PK_BOOTSTRAP_SERVER=kafka.bootstrap, **options
    )


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_every_tab_at_every_size(
    at: Run, top: Open, fresh: Fresh, columns: int, lines: int
) -> None:
    name, group = fresh("top"), fresh("top-group")
    assert at("topics", "create", name, "-p", "2").code == 0
    at("produce", "-t", name, stdin=b"a\nb\nc\n")
    at("groups", "reset-offsets", group, "-t", name, "--to", "start", "-y")
    screen = top(columns=columns, lines=lines)
    screen.wait_for("BROKER▲")
    screen.wait_for(FOOT)
    screen.keys("2", "/")
    screen.send(name)
    screen.keys("enter")
    screen.wait_for(lambda text: name in line(text, 4))
    screen.keys("enter")
    screen.wait_for(f"Topic {name}")
    screen.wait_for("REPLICAS")
    screen.keys("escape", "3", "/")
    screen.send(group)
    screen.keys("enter")
    screen.wait_for(lambda text: group in text and " 3 " in line(text, 4))
    screen.keys("enter")
    screen.wait_for(f"Group {group}")
    screen.wait_for(  # a row for each partition
        lambda text: name in line(text, 4) and sum(name in row for row in text.splitlines()) == 2
    )
    screen.keys("4")
    screen.wait_for("is in sync.")
    screen.wait_for("shrink")
    screen.keys("5")
    screen.wait_for("Nothing is being reassigned.")
    screen.keys("?")
    screen.wait_for("Press any key")
    screen.keys("x", "q")
    assert (screen.end(), screen.traces()) == (0, [])


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_the_records_of_a_topic(at: Run, top: Open, fresh: Fresh, columns: int, lines: int) -> None:
    name = fresh("top-records")
    assert at("topics", "create", name, "-p", "2").code == 0
    records = [
        {"key": "k1", "value": '{"user":7,"price":1.10}', "headers": [["trace", "abc"]]},
        {"key": "k2", "value": '{"user":8}', "partition": 1},
        {"key": "k3", "value": None},
    ]
    lines_of = "".join(f"{json.dumps(record)}\n" for record in records)
    assert at("produce", name, "-f", "jsonl", stdin=lines_of.encode()).code == 0
    screen = top("topics", columns=columns, lines=lines)
    screen.wait_for("v records")
    screen.keys("/")
    screen.send(name)
    screen.keys("enter")
    screen.wait_for(lambda text: name in line(text, 4))
    screen.keys("v")
    screen.wait_for(f"{name}: the newest 3 records")
    screen.wait_for(lambda text: all(f" {key} " in text for key in ("k1", "k2", "k3")))
    screen.keys("/")
    screen.send("value.user = 7")
    screen.keys("enter")
    screen.wait_for(f"{name}: 1 of the 3 records read match")
    screen.keys("down", "enter")
    screen.wait_for(lambda text: "trace: abc" in text and '\n  "price": 1.10\n' in text)
    screen.keys("q")
    screen.wait_for("1 of the 3 records read match")
    screen.keys("escape")
    screen.wait_for("the newest 3 records")
    at("produce", name, stdin=b"added later\n")
    screen.wait_for(lambda text: "the newest 4 records" in text and "added later" in text)
    screen.keys("/")
    screen.send("LATER")
    screen.keys("enter")
    screen.wait_for("1 of the 4 records read match")
    screen.keys("/", "ctrl-u")
    screen.send("vlaue = 7")
    screen.keys("enter")
    screen.wait_for("unknown field 'vlaue'; did you mean value?")
    screen.keys("escape", "escape")
    screen.wait_for(lambda text: name in line(text, 4))
    screen.keys("enter")
    screen.wait_for("REPLICAS")
    screen.keys("p", "down", "down", "enter")  # one partition, which is read though top is paused
    screen.wait_for("PAUSED")
    screen.wait_for(f"{name}/1: the newest")
    screen.keys("q", "q", "q")
    assert (screen.end(), screen.traces()) == (0, [])


@pytest.mark.parametrize(
    "how",
    ["ctrl-c", signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)],
    ids=["ctrl-c", "sigterm", "sighup"],
)
def test_whatever_ends_it_the_terminal_is_as_it_was(
    terminal: Open, pk_kafka: Kafka, how: str | signal.Signals
) -> None:
    screen = terminal("top", "groups", PK_BOOTSTRAP_SERVER=pk_kafka.bootstrap)
    screen.wait_for(FOOT)
    assert screen.screen_of.alternate and screen.screen_of.cursor.hidden
    if isinstance(how, signal.Signals):
        screen.signal(how)
    else:
        screen.keys(how)
    code = 130 if isinstance(how, signal.Signals) else -signal.SIGINT
    assert (screen.end(), screen.traces()) == (code, [])
    assert FOOT not in screen.screen()


def test_it_follows_the_size_of_the_terminal(terminal: Open, pk_kafka: Kafka) -> None:
    screen = terminal("top", PK_BOOTSTRAP_SERVER=pk_kafka.bootstrap)
    screen.wait_for(fills(24))
    screen.resize(120, 40)
    screen.wait_for(fills(40))
    screen.resize(60, 10)
    screen.wait_for(fills(10))
    screen.resize(20, 4)
    screen.wait_for("pk top needs")
    screen.resize(80, 24)
    screen.wait_for(fills(24))
    assert "BROKER" in screen.screen()
    screen.keys("q")
    assert (screen.end(), screen.traces()) == (0, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "typed", "painted", "last"),
    [
        ("top", "", FOOT, "q"),
        ("topics list -w --interval 600", "", "every 600 s", "ctrl-c"),
        ("shell", "top\r", FOOT, "q"),
        ("shell", "topics list \\w 600\r", "every 600 s", "ctrl-c"),
    ],
)
def test_ctrl_z_gives_the_terminal_back_for_as_long_as_it_lasts(
    terminal: Open, pk_kafka: Kafka, words: str, typed: str, painted: str, last: str
) -> None:
    # Job control takes a shell: one that stops with us, and brings us back.
    command = " ".join(pk_command(*words.split(), "-b", pk_kafka.bootstrap))
    screen = terminal(
        "-i", "-c", f"set -m; trap : INT; {command}; fg; echo over", program="/bin/bash"
    )
    if typed:
        screen.wait_for("under-replicated")
        screen.send(typed)
    screen.wait_for(painted)
    screen.keys("ctrl-z")
    screen.wait_for(lambda _: b"Stopped" in screen.output.partition(b"\x1b[?1049l")[2])
    screen.wait_for(lambda _: screen.output.count(b"\x1b[?1049h") == 2)  # `fg`
    screen.wait_for(painted)
    screen.keys(last)
    if typed:
        screen.wait_for(lambda _: not screen.screen_of.alternate)
        screen.wait_for("Tab completes")
        screen.keys("ctrl-d")
    screen.wait_for("over")
    assert not screen.screen_of.alternate and not screen.screen_of.cursor.hidden


def test_no_color_means_none(terminal: Open, pk_kafka: Kafka) -> None:
    screen = terminal("top", PK_BOOTSTRAP_SERVER=pk_kafka.bootstrap, NO_COLOR="1")
    screen.wait_for(FOOT)
    assert not screen.colors
    screen.keys("q")
    assert screen.end() == 0


@pytest.fixture(scope="module")
def frail() -> Iterator[PkBroker]:
    """A separate broker for this module, which a test kills."""
    with PkBroker() as broker:
        yield broker


@pytest.mark.thorough
def test_a_broker_that_dies_and_returns(terminal: Open, frail: PkBroker) -> None:
    screen = terminal("top", "topics", "--interval", "0.5", "-i", "-b", frail.bootstrap)
    subprocess.run(
        pk_command("topics", "create", "lasting", "-b", frail.bootstrap),
        check=True,
        capture_output=True,
    )
    screen.wait_for("lasting")
    frail.kill()
    said = ("No broker answers; trying again.", "As of ")
    screen.wait_for(lambda text: all(words in text for words in said))
    assert "lasting" in screen.screen()  # the last picture stays
    screen.keys("3", "2")  # and the keys go on
    frail.start()
    screen.wait_for(lambda text: "trying again" not in text and "lasting" in text)
    screen.keys("q")
    assert (screen.end(), screen.traces()) == (0, [])


def test_where_no_broker_is_there_is_no_screen(terminal: Open) -> None:
    screen = terminal("top", "-b", "127.0.0.1:1")
    assert (screen.end(), screen.traces()) == (3, [])
    assert "No broker answers" in screen.screen()
    assert b"1049" not in screen.output


def test_a_terminal_that_cannot_be_drawn_on_gets_snapshots(terminal: Open, pk_kafka: Kafka) -> None:
    screen = terminal(
        "top", "--interval", "0.2", PK_BOOTSTRAP_SERVER=pk_kafka.bootstrap, TERM="dumb"
    )
    screen.wait_for(lambda text: text.count("BROKER") >= 2)
    assert b"\x1b" not in screen.output
    screen.keys("ctrl-c")
    assert (screen.end(), screen.traces()) == (-signal.SIGINT, [])


def test_snapshots_in_a_pipe(at: Run, fresh: Fresh) -> None:
    name, group = fresh("top"), fresh("top-group")
    assert at("topics", "create", name, "-p", "3").code == 0
    at("produce", "-t", name, stdin=b"a\nb\nc\n")
    at("groups", "reset-offsets", group, "-t", name, "--to", "start", "-y")
    words = ("--interval", "0.1", "--where")
    found = at("top", "groups", *words, f"group = {group}", "-f", "json")
    assert (found.code, found.err) == (0, "")
    row = found.json[0]
    assert (row["group"], row["lag"], row["topics"], row["members"]) == (group, 3, 1, 0)
    assert row["trend"] == "stuck" and row["time_lag_ms"] >= 0
    twice = at("top", "topics", *words, f"topic = {name}", "-n", "2", "-f", "jsonl")
    lines = [json.loads(line) for line in twice.lines]
    assert [(r["topic"], r["partitions"], r["in_rate"]) for r in lines] == [(name, 3, 0.0)] * 2
    assert at("top", "cluster", "-n", "1", "-f", "name").code == 0
    wrong = at("top", "nonsense")
    assert (wrong.code, "TAB must be one of cluster, topics" in wrong.err) == (2, True)
    assert at("top", "topics", "--where", "nope = 1", "--interval", "0.1").code == 2


def test_a_snapshot_of_a_share_group(at: Run, fresh: Fresh) -> None:
    name = fresh("top-jobs")
    assert at("topics", "create", name, "-p", "1").code == 0
    key = "share.auto.offset.reset=earliest"
    assert at("configs", "alter", "group", name, "-c", key, "-y").code == 0
    at("produce", name, stdin=b"a\nb\nc\n")
    taken = at("consume", name, "-g", name, "--share", "-n", "2", "--timeout-ms", "60000")
    assert len(taken.lines) == 2
    where = ("--interval", "0.1", "--where", f"group = {name}", "-f", "json")
    (row,) = at("top", "groups", *where).json
    assert (row["type"], row["state"], row["lag"], row["topics"]) == ("Share", "Empty", 1, 1)
    assert row["time_lag_ms"] >= 0


@pytest.mark.slow
def test_five_thousand_topics_and_two_thousand_groups(terminal: Open) -> None:
    """Both lists are shown completely, and the keys work in the meantime."""
    with PkBroker(memory=True) as broker:
        script = Path(__file__).with_name("many.py")
        subprocess.run(
            [sys.executable, str(script), broker.bootstrap, "5000", "2000"],
            check=True,
            env=os.environ,
        )
        screen = terminal(
            "top", "topics", columns=200, lines=50, PK_BOOTSTRAP_SERVER=broker.bootstrap
        )
        screen.wait_for("5,000 topics", timeout=60)
        screen.keys("G")
        screen.wait_for(FOOT)
        screen.keys("/", "t", "-", "4", "9", "9", "9", "enter")
        screen.wait_for(lambda text: "t-4999" in text and "t-4998" not in text)
        screen.keys("3")
        screen.wait_for("2,000 groups", timeout=60)
        screen.wait_for(
            lambda text: "2,000 groups" in text and "loaded so far" not in text, timeout=90
        )
        screen.keys("q")
        assert (screen.end(), screen.traces()) == (0, [])
