"""The standard input, output and error of a command, and which of them are terminals."""

import os
import sys
from typing import Any, BinaryIO, TextIO

from pk.cli.terminal.text import folded_sentence


class Streams:
    """Standard input, output and error."""

    def __init__(
        self,
        out: BinaryIO | None = None,
        err: TextIO | None = None,
        stdin: BinaryIO | None = None,
        *,
        out_terminal: bool | None = None,
    ) -> None:
        self.out: BinaryIO = out if out is not None else sys.stdout.buffer
        self.err: TextIO = err if err is not None else sys.stderr
        self.stdin: BinaryIO = stdin if stdin is not None else sys.stdin.buffer
        self.out_terminal = _is_terminal(self.out) if out_terminal is None else out_terminal
        self.err_terminal = _is_terminal(self.err)
        self.in_terminal = _is_terminal(self.stdin)

    @property
    def color(self) -> bool:
        """Whether standard output supports colors."""
        return (
            self.out_terminal
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )

    @property
    def err_color(self) -> bool:
        """Whether standard error supports colors."""
        return self.err_redraws and not os.environ.get("NO_COLOR")

    @property
    def err_redraws(self) -> bool:
        """Whether text on standard error can be overwritten, as by a status or a bar."""
        return self.err_terminal and os.environ.get("TERM") != "dumb"

    @property
    def width(self) -> int:
        """The columns of the terminal on standard output; 80 if it is not a terminal."""
        return _columns(self.out)

    @property
    def err_width(self) -> int:
        """The columns of the terminal on standard error; 80 if it is not a terminal."""
        return _columns(self.err)

    def folded(self, text: str) -> str:
        """A sentence wrapped for the terminal on standard error; commands in it (`pk undo 3`) stay
        on one line."""
        return folded_sentence(text, self.err_width) if self.err_terminal else text

    @property
    def height(self) -> int:
        """The lines of the terminal on standard output; 24 if it is not a terminal."""
        return _lines(self.out)

    @property
    def err_height(self) -> int:
        """The lines of the terminal on standard error; 24 if it is not a terminal."""
        return _lines(self.err)


def _columns(stream: Any) -> int:
    """The columns of a terminal stream; 80 if it is not one."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _lines(stream: Any) -> int:
    """The lines of a terminal stream; 24 if it is not one."""
    try:
        return os.get_terminal_size(stream.fileno()).lines or 24
    except (OSError, ValueError):
        return 24


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False
