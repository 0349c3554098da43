"""The terminal while a command has not shown anything yet."""

import io
from collections.abc import Sequence

import pytest
import trio
import trio.testing

from pk.cli.command_line.parse import parse
from pk.cli.runtime.context import Context
from pk.cli.runtime.session import open_session
from pk.cli.runtime.slow_answer import showing_waits
from pk.cli.terminal.streams import Streams
from pk.net.client.results import Node


def shown(line: str, for_s: float, silent: Sequence[Node] = ()) -> str:
    """Standard error on a terminal, while `line` works for `for_s` seconds and the brokers in
    `silent` do not answer."""
    said = io.StringIO()
    parsed = parse(line.split())

    async def work(context: Context) -> None:
        await trio.sleep(for_s)

    async def main() -> None:
        async with open_session() as session:
            session.silent = lambda for_s: list(silent)
            streams = Streams(err=said)
            streams.err_terminal = True
            await showing_waits(work)(Context(parsed.values, parsed.path, streams, session))

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return said.getvalue()


def test_a_change_that_takes_long_says_that_it_works() -> None:
    said = shown("topics create big -p 10000", 2.1)
    assert "Working, 1 s; Ctrl-C stops." in said and "Working, 2 s; Ctrl-C stops." in said
    assert said.endswith("\x1b[?25h\r\x1b[1A\x1b[2K"), "the line is gone at the end"


def test_what_is_quick_or_only_looks_says_nothing() -> None:
    assert shown("topics create small", 0.9) == ""
    assert shown("topics list", 5) == ""


@pytest.mark.parametrize("command", ["isr", "reassign status"])
def test_what_draws_itself_is_not_drawn_over(command: str) -> None:
    silent = [Node(1, "h", 9092)]
    assert "Waiting for" in shown(command, 3, silent)
    assert shown(f"{command} -w --interval 1", 3, silent) == ""
