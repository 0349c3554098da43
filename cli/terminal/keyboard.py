"""The keyboard, key by key: without echo, and without waiting for the end of a line.

Ctrl-C and Ctrl-Z stay signals, so that they end or stop the program even if it hangs.
(prompt-toolkit's raw mode is not used because it turns them into keys.)
"""

import termios
import tty
from types import TracebackType
from typing import Any, Self

from pk.cli.terminal.streams import Streams
from pk.cli.terminal.suspend import Suspendable


class Keyboard:
    """Takes over the keyboard during the block; keeps what was typed before."""

    def __init__(self, streams: Streams) -> None:
        self.fd = streams.stdin.fileno()
        """The terminal that the keys come from."""

        self._modes: list[Any] | None = None
        self._held = Suspendable(self._give_back, self._take)

    def __enter__(self) -> Self:
        self._take()
        self._held.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.close()
        self._give_back()

    def _take(self) -> None:
        self._modes = termios.tcgetattr(self.fd)
        tty.setcbreak(self.fd, termios.TCSADRAIN)

    def _give_back(self) -> None:
        modes, self._modes = self._modes, None
        if modes is not None:
            termios.tcsetattr(self.fd, termios.TCSADRAIN, modes)
