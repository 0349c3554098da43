"""The terminal while `pk top` has it: the alternate screen, keys as they are pressed, and everything as it was at the end.

Whatever ends the block, a key, a signal or an exception, the terminal gets its modes and its screen back. Ctrl-C stays a
signal, so that nothing that hangs can keep it from ending the program.
"""

import os
import termios
from types import TracebackType
from typing import Any, Self

from pk.cli.runtime.context import Streams

_ENTER = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_LEAVE = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_LFLAG = 3
_CC = 6


class Terminal:
    """Takes the terminal for as long as the block lasts."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._fd = streams.stdin.fileno()
        self._modes: list[Any] | None = None

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.give_back()

    @property
    def fd(self) -> int:
        """Where the keys come from."""
        return self._fd

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return self._streams.width, self._streams.height

    def take(self) -> None:
        """Takes over. What was typed ahead stays."""
        self._modes = termios.tcgetattr(self._fd)
        modes = termios.tcgetattr(self._fd)
        modes[_LFLAG] &= ~(termios.ICANON | termios.ECHO)
        modes[_CC][termios.VMIN], modes[_CC][termios.VTIME] = 1, 0
        termios.tcsetattr(self._fd, termios.TCSADRAIN, modes)
        self._send(_ENTER)

    def give_back(self) -> None:
        """Leaves the terminal as it was found. Idempotent."""
        if self._modes is None:
            return
        modes, self._modes = self._modes, None
        try:
            self._send(_LEAVE)
        finally:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, modes)

    def write(self, data: bytes) -> None:
        """Sends bytes to the terminal."""
        self._streams.out.write(data)
        self._streams.out.flush()

    def _send(self, data: bytes) -> None:
        """The same past the buffer, in the middle of whatever is being written: Ctrl-Z may come at any moment."""
        os.write(self._streams.out.fileno(), data)
