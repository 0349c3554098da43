"""`pk shell`: runs pk's commands interactively, from a script, or line by line (`-c`)."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from pk.cli.exits import Exit
from pk.cli.runtime.context import Context
from pk.cli.shell.lines import Shell, raise_interrupt
from pk.cli.shell.words import joined
from pk.cli.terminal.stdin import lines_of


def shell(context: Context, lines: Sequence[str], *, stop_on_error: bool) -> int:
    """Run `pk shell`: interactively at a terminal. Otherwise it runs the given lines, or those of
    standard input, in order."""
    interactive = not lines and context.streams.in_terminal and context.streams.out_terminal
    session = Shell(context.settings, interactive=interactive)
    # Typing must not stall while the other thread processes thousands of names.
    sys.setswitchinterval(0.001)
    with session.engine, session.guarding():
        if interactive:
            from pk.cli.shell.screen import interact

            interact(session)
            return Exit.OK
        if lines:
            return run_script(session, lines, stop=stop_on_error)
        with open(os.devnull, "rb") as nothing:
            session.stdin = nothing  # the rest of the script is not a command's input
            return run_script(session, _script(context.streams.stdin), stop=stop_on_error)


def _script(source: BinaryIO) -> Iterator[str]:
    """The lines of a script."""
    return joined(raw.decode(errors="replace").rstrip("\r\n") for raw in lines_of(source))


def run_script(session: Shell, lines: Iterable[str], *, stop: bool) -> int:
    """Run all lines. Returns the exit code of the first one that failed."""
    first = Exit.OK
    try:
        with session.on_interrupt(raise_interrupt):
            for line in lines:
                goes_on = session.run_line(line)
                sys.stdout.flush()
                first = first or session.last_code
                if not goes_on or session.last_code == Exit.INTERRUPTED or (stop and first):
                    break
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return first
