"""The output of a command in the shell. It is held back until it is clear whether it fits the
screen, and then printed, or passed to a pager.

Output and error messages must stay in order, so a message to standard error releases all held
output. So does a command that takes long. All later output is written immediately.
"""

import sys
import threading
import time
from typing import Any

from pk.cli.terminal.pager import is_tall, page

HOLD_S = 1.0
_HELD_MAX = 32 << 20
_PROMPT_LINES = 3
"""The lines of the prompt and the toolbar, and the line between them."""


class HeldOutput:
    """A binary stream in front of the terminal. The engine's thread writes to it, and the main
    thread reads its state."""

    def __init__(self, *, through: bool = False) -> None:
        self._lock = threading.Lock()
        self._held = bytearray()
        self._since: float | None = None
        self._through = through
        self.open_line = False
        """Whether the last line is incomplete, so that the prompt would follow it on the same
        line."""

    def write(self, data: bytes) -> int:
        """Hold `data` back, or write it."""
        with self._lock:
            if data:
                self.open_line = data[-1:] != b"\n"
            if self._through:
                sys.stdout.buffer.write(data)
            else:
                self._since = self._since or time.monotonic()
                self._held += data
        if len(self._held) > _HELD_MAX:
            self.release()
        return len(data)

    def flush(self) -> None:
        """Flush the output that was written; held output stays."""
        if self._through:
            sys.stdout.buffer.flush()

    def fileno(self) -> int:
        """The descriptor of the terminal, so that its size can be found."""
        return sys.stdout.fileno()

    def isatty(self) -> bool:
        """True, since the stream replaces a terminal."""
        return True

    def release(self) -> None:
        """Write the held output, and stop holding."""
        with self._lock:
            self._through = True
            if self._held:
                sys.stdout.buffer.write(self._held)
                sys.stdout.buffer.flush()
                self._held.clear()

    def release_if_late(self) -> None:
        """Release output that has been held for long, since the command will not end soon."""
        if self._since is not None and time.monotonic() - self._since > HOLD_S:
            self.release()

    def finish(self, *, paged: bool) -> None:
        """Show the held output at the end of a command, in a pager if `paged` and it is too
        tall."""
        with self._lock:
            data, self._held, self._through = bytes(self._held), bytearray(), True
        if data:
            if paged and is_tall(data, _PROMPT_LINES) and page(data):
                return
            sys.stdout.buffer.write(data)
        if self.open_line:
            sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()


class HeldError:
    """Standard error; writing to it releases held output first."""

    def __init__(self, out: HeldOutput) -> None:
        self._out = out

    def write(self, text: str) -> int:
        """Write the text after the held output."""
        self._out.release()
        if text.endswith("\n"):
            self._out.open_line = False
        return sys.stderr.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)
