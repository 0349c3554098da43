"""The tests' own terminal: its screen must be the one that a user would see."""

import re
import shutil
import signal
import sys
from collections.abc import Callable

import pytest
from clients.pk_cluster import PkCluster
from terminal import Terminal, on_terminal

from pk.cli.main import main
from pk.cli.terminal.text import folded_addresses

Start = Callable[..., Terminal]


def python(terminal: Start, source: str, **options: object) -> Terminal:
    return terminal("-c", source, program=sys.executable, **options)


def test_it_has_the_size_asked_for_and_follows_a_resize(terminal: Start) -> None:
    one = python(
        terminal,
        "import os, signal\n"
        "def told(*_): print(*os.get_terminal_size(), flush=True)\n"
        "signal.signal(signal.SIGWINCH, told); told(); input()\n",
        columns=200,
        lines=50,
    )
    one.wait_for("200 50")
    one.resize(100, 30)
    one.wait_for("100 30")
    one.line("")
    assert one.end() == 0
    assert one.traces() == []


def test_colors_cursor_and_keys(terminal: Start) -> None:
    one = python(terminal, r"print('\x1b[31mred\x1b[0m plain', end=''); input()")
    one.wait_for(re.compile("red plain"))
    assert one.color_of("red").fg == "red" and one.color_of("plain").fg == "default"
    assert one.cursor == (9, 0)
    one.keys("ctrl-d")
    assert one.end() == 1


def test_an_interrupt_reaches_it(terminal: Start) -> None:
    # Python's own handler leaves a signal lie that comes right before it blocks.
    source = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\nprint('here', "
        "flush=True); input()"
    )
    one = python(terminal, source)
    one.wait_for("here")
    one.keys("ctrl-c")
    assert one.end() == -signal.SIGINT


@pytest.mark.parametrize(
    ("source", "trace"),
    [
        (r"print('\x1b[?25l')", "the cursor is hidden"),
        (r"print('\x1b[?1049h')", "the alternate screen is on"),
        (r"print('\x1b[?2004h')", "bracketed paste"),
        (r"print('\x1b[31m')", "a color is on"),
        ("import tty; tty.setraw(0)", "local: "),
    ],
)
def test_what_is_left_behind_is_seen(terminal: Start, source: str, trace: str) -> None:
    one = python(terminal, source)
    assert one.end() == 0
    assert any(found.startswith(trace) for found in one.traces())


def test_the_alternate_screen_comes_and_goes(terminal: Start) -> None:
    one = python(
        terminal,
        r"print('below'); input(); print('\x1b[?1049habove', flush=True); input();"
        r"print('\x1b[?1049l', end='', flush=True)",
    )
    one.wait_for("below")
    one.line("")
    text = one.wait_for("above")
    assert "below" not in text
    one.line("")
    assert one.end() == 0
    assert one.screen().startswith("below") and "above" not in one.screen()
    assert one.traces() == []


def test_a_line_is_seen_that_the_same_read_scrolls_off_the_screen(terminal: Start) -> None:
    one = python(terminal, "print(*range(1000, 1200), sep='\\n', flush=True); input()")
    one.wait_for("1010\n1011")  # a read may end behind 1010
    assert "1010" not in one.wait_for("1199")
    one.line("")
    assert one.end() == 0


def test_a_wait_that_fails_shows_the_screen(terminal: Start) -> None:
    one = python(terminal, "print('something else')")
    with pytest.raises(AssertionError, match="something else"):
        one.wait_for("what never comes")


def test_what_is_no_command_line_is_said_in_whole_words() -> None:
    shown = on_terminal(main, ("groups", "descirbe", "g1"))
    assert shown.code == 2
    assert shown.screen.splitlines()[:2] == [
        "pk groups has no command 'descirbe'; did you mean describe? (`pk groups --help`",
        "shows the usage.)",
    ]


def test_a_list_without_rows_is_said_to_be_empty() -> None:
    with PkCluster(1) as cluster:
        for noun in ("topics", "groups", "users", "quotas"):
            shown = on_terminal(main, (noun, "list", "-b", cluster.bootstrap))
            assert shown.code == 0
            assert shown.screen.splitlines()[2].startswith(f"No {noun}"), shown.screen


@pytest.mark.skipif(shutil.which("less") is None, reason="needs less")
@pytest.mark.parametrize("words", [("--help",), ("help", "errors"), ("consume", "--help")])
def test_help_that_is_taller_than_the_terminal_waits_in_a_pager_that_says_how_to_leave(
    terminal: Start, words: tuple[str, ...]
) -> None:
    one = terminal(*words)
    assert "Usage: pk" in one.wait_for("q: quit") or words == ("help", "errors")
    one.keys("ctrl-c")  # less takes it, and pk waits for less
    one.send(" ")
    one.send("q")
    assert one.end() == 0 and one.traces() == []


@pytest.mark.parametrize(
    ("words", "lines"), [(("help", "durations"), 24), (("topics", "--help"), 60)]
)
def test_help_that_fits_needs_no_pager(terminal: Start, words: tuple[str, ...], lines: int) -> None:
    one = terminal(*words, lines=lines, PK_PAGER="sh -c 'echo paged; cat'")
    assert one.end() == 0 and "paged" not in one.screen()


@pytest.mark.parametrize("erased", [r"\r\x1b[2K", r"\n\x1b[1A\x1b[2K\x1b[1A\x1b[2K", r"\x1b[2J"])
def test_what_is_replaced_at_once_was_there(terminal: Start, erased: str) -> None:
    one = python(terminal, rf"print('working 1{erased}working 2{erased}done'); input()")
    for shown in ("working 1", "done"):
        assert shown in one.wait_for(shown)
    assert "working" not in one.screen()
    again = python(terminal, rf"print('working 1{erased}working 2{erased}done'); input()")
    assert "working 2" in again.wait_for(re.compile(r"working \d(?<!1)"))


@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_no_line_breaks_inside_an_address(width: int) -> None:
    addresses = ",".join(f"127.0.0.1:{port}" for port in range(40001, 40009))
    lines = folded_addresses(f"Cluster of 8 brokers is ready after 900 ms, at {addresses}", width)
    assert max(map(len, lines)) <= width
    found = [part for line in lines for word in line.split() for part in word.split(",")]
    assert [p for p in found if p.startswith("127")] == addresses.split(",")
