"""Standard input, output and error of a command, and which of them are terminals."""

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
    def colour(self) -> bool:
        """Whether standard output takes colours."""
        return (
            self.out_terminal
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )

    @property
    def err_colour(self) -> bool:
        """Whether standard error takes colours."""
        return (
            self.err_terminal
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )

    @property
    def width(self) -> int:
        """Columns of the terminal that standard output is; 80 where it is none."""
        return _columns(self.out)

    @property
    def err_width(self) -> int:
        """Columns of the terminal that standard error is; 80 where it is none."""
        return _columns(self.err)

    def folded(self, text: str) -> str:
        """A sentence in lines that fit the terminal that standard error is; commands in it (`pk undo 3`) stay whole."""
        return folded_sentence(text, self.err_width) if self.err_terminal else text

    @property
    def height(self) -> int:
        """Lines of the terminal that standard output is; 24 where it is none."""
        try:
            return os.get_terminal_size(self.out.fileno()).lines or 24
        except (OSError, ValueError):
            return 24


def _columns(stream: Any) -> int:
    """The width of the terminal that a stream is; 80 where it is none."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False
