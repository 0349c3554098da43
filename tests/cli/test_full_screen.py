"""The full screen of `pk top` and `-w`: keys, colors, and the terminal after its end."""

import sys
from collections.abc import Callable

from terminal import Terminal

Open = Callable[..., Terminal]

ECHO = """
import trio
from pk.cli.terminal.full_screen import FullScreen
from pk.cli.terminal.streams import Streams

async def main():
    keys, done = [], trio.Event()

    def press(key):
        if key == "!":
            raise RuntimeError("in the middle")
        keys.append(key)
        draw()
        if key == "q":
            done.set()

    def draw():
        width, height = screen.size
        screen.draw([
            [("size ", "dim"), (f"{width}x{height}", "bold reverse red")],
            "\\x1b[32mkeys\\x1b[0m " + " ".join(keys),
            [("x" * 500, "")],
            "not UTF-8: \\udcff",
        ])

    screen = FullScreen(Streams(), press, draw)
    draw()
    async with screen.shown():
        await done.wait()

trio.run(main)
"""


def echo(terminal: Open, **options: str) -> Terminal:
    screen = terminal("-c", ECHO, program=sys.executable, **options)
    screen.wait_for("size 80x24")
    return screen


def test_keys_have_names(terminal: Open) -> None:
    screen = echo(terminal)
    assert screen.screen_of.alternate and screen.screen_of.cursor.hidden
    screen.send(b"j\x1b[A\x1bOB\x1b[5~\r\t\x1b[Z\x7f\xc3\xa4\x1bOP\x1b[21~\x0c?")
    screen.wait_for("keys j up down page-up enter tab back-tab backspace ä f1 f10 redraw ?")
    screen.keys("q")
    assert (screen.end(), screen.traces()) == (0, [])


def test_a_sequence_that_is_unknown_is_no_keys(terminal: Open) -> None:
    screen = echo(terminal)
    screen.send(b"a\x1b[38;5;1m\x1b[1;9Pb\xff\x00c")
    screen.wait_for("keys a b c")
    screen.keys("escape")
    screen.wait_for("keys a b c escape")
    screen.send(b"\x1b[200~d\ne\x1b[201~")
    screen.wait_for("keys a b c escape d e")
    screen.keys("q")
    assert (screen.end(), screen.traces()) == (0, [])


def test_colors_and_lines_that_are_too_long(terminal: Open) -> None:
    screen = echo(terminal)
    assert screen.colors == {"red", "green"}
    lines = screen.screen().splitlines()
    assert lines[2:] == ["x" * 80, "not UTF-8: \N{REPLACEMENT CHARACTER}"]
    assert b"\xff" in screen.output  # the terminal gets the byte
    screen.resize(100, 30)
    screen.wait_for("size 100x30")
    screen.keys("q")
    assert (screen.end(), screen.traces()) == (0, [])
    plain = echo(terminal, NO_COLOR="1")
    assert not plain.colors
    assert plain.color_of("80x24").reverse and plain.color_of("80x24").bold
    plain.keys("q")
    assert plain.end() == 0


def test_a_failure_of_our_own_gives_the_terminal_back(terminal: Open) -> None:
    screen = echo(terminal)
    screen.keys("!")
    assert (screen.end(), screen.traces()) == (1, [])
    assert "in the middle" in screen.screen()
