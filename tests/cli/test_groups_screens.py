"""Questions about groups on a terminal: the plan above, the answer below, and the effect of each
answer."""

import signal
from collections.abc import Callable, Iterator

import pytest
from clients.fixtures import Kafka
from group_parts import Fresh, Run, committed
from terminal import SIZES, Terminal, on_terminal, size_name

from pk.cli.main import main


@pytest.fixture(params=SIZES, ids=size_name)
def size(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """The sizes of terminals for these tests."""
    yield request.param


@pytest.fixture
def group(at: Run, fresh: Fresh, timed_topic: str) -> str:
    """A group that has committed 5 and 2 in `timed_topic`."""
    name = fresh("asked")
    at("groups", "reset-offsets", name, "-t", timed_topic, "--to", "0=5,1=2", "-y")
    return name


def test_a_reset_is_shown_and_asked(
    kafka: Kafka,
    at: Run,
    group: str,
    timed_topic: str,
    size: tuple[int, int],
    terminal: Callable[..., Terminal],
) -> None:
    columns, lines = size
    words = ("groups", "reset-offsets", group, "--to", "start", "-b", kafka.bootstrap)
    for answer, code, offset in (("n", 5, 5), ("", 5, 5), ("y", 0, 0)):
        screen = terminal(*words, columns=columns, lines=lines)
        shown = screen.wait_for("Reset? [y/N]")
        assert "-5 re-read" in shown and "2001-09-09" in shown
        assert "this re-reads 7 records" in shown.replace("\n", " ")
        screen.line(answer)
        assert screen.end() == code
        assert screen.traces() == []
        if code == 0:
            assert "To undo it: pk undo 2" in screen.text
        else:
            assert "Nothing was changed." in screen.text
        assert committed(at, group)[timed_topic, 0] == offset


def test_a_question_about_many_offsets_stays_on_the_screen(
    kafka: Kafka, at: Run, fresh: Fresh
) -> None:
    topic, group = fresh("wide"), fresh("many")
    at("topics", "create", topic, "-p", "60")
    at("groups", "reset-offsets", group, "-t", f"{topic}:0-58", "--to", "end", "-y")
    words = ("groups", "reset-offsets", group, "-t", topic, "--to", "end", "-b", kafka.bootstrap)
    asked = on_terminal(main, words, (80, 24), "n\n")
    assert (asked.code, "… and 20 more (`--dry-run` shows all)." in asked.screen) == (5, True)
    first = next(line for line in asked.screen.splitlines() if line.startswith(topic))
    assert first.split()[1] == "59" and "no commit" in first, "what is said of one is not hidden"


def test_ctrl_c_at_a_question_changes_nothing(
    kafka: Kafka, at: Run, group: str, timed_topic: str, terminal: Callable[..., Terminal]
) -> None:
    words = ("groups", "reset-offsets", group, "--to", "start", "-b", kafka.bootstrap)
    screen = terminal(*words, columns=80, lines=24)
    screen.wait_for("Reset? [y/N]")
    screen.keys("ctrl-c")
    assert screen.end() == -signal.SIGINT
    assert "Traceback" not in screen.text
    assert committed(at, group)[timed_topic, 0] == 5


def test_what_is_waited_for_stands_on_one_line(
    kafka: Kafka, at: Run, group: str, size: tuple[int, int], terminal: Callable[..., Terminal]
) -> None:
    columns, lines = size
    words = ("wait", "lag", group, "--timeout", "10m", "-b", kafka.bootstrap)
    screen = terminal(*words, columns=columns, lines=lines)
    screen.wait_for(f"Waiting: group {group} is 7 records behind")
    at("groups", "reset-offsets", group, "--to", "committed+1", "-y")
    screen.wait_for("is 5 records behind")
    assert screen.text.count("Waiting: ") == 1
    at("groups", "reset-offsets", group, "--to", "end", "-y")
    screen.wait_for("is no more than 0 records behind")
    assert screen.end() == 0
    assert "Waiting: " not in screen.text


def test_a_watch_ends_with_ctrl_c_and_a_summary(
    kafka: Kafka, group: str, size: tuple[int, int], terminal: Callable[..., Terminal]
) -> None:
    columns, lines = size
    words = ("groups", "watch", group, "-b", kafka.bootstrap)
    screen = terminal(*words, columns=columns, lines=lines)
    screen.wait_for(f"Watching group {group}; Ctrl-C ends.")
    screen.keys("ctrl-c")
    assert screen.end() == -signal.SIGINT
    assert f"{group}: 0 rebalances" in screen.text
    assert screen.traces() == []
