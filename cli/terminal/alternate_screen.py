"""The terminal's alternate screen, on which `pk top` and `-w` draw: a whole screen at a time, with
rich's Live.

rich draws, and restores the terminal however the block ends. Two things that it lacks are added
here. Ctrl-Z restores the terminal while the program is stopped; those bytes bypass the buffers,
because the signal may arrive in the middle of a write. And lines do not wrap, so that a terminal
that counts a character's cells differently, or has just become narrower, does not scroll.
"""

import io
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Final, Self, cast

from rich.console import Console, ConsoleDimensions, Group
from rich.live import Live
from rich.text import Text

from pk.cli.terminal.streams import Streams
from pk.cli.terminal.suspend import Suspendable, sends

_NO_WRAP: Final = b"\x1b[?7l"
_ENTER: Final = b"\x1b[?1049h\x1b[?25l\x1b[2J" + _NO_WRAP
_WRAP: Final = b"\x1b[0m\x1b[?7h"
_LEAVE: Final = _WRAP + b"\x1b[?25h\x1b[?1049l"


class _Out(io.TextIOBase):
    """The terminal as a text stream for rich; names that are not UTF-8 are written as their
    original bytes."""

    def __init__(self, streams: Streams) -> None:
        self._out = streams.out

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._out.fileno()

    def write(self, text: str, /) -> int:
        self._out.write(text.encode(errors="surrogateescape"))
        return len(text)

    def flush(self) -> None:
        self._out.flush()


class AlternateScreen:
    """Shows the alternate screen during the block. Calls `resumed`, in the main thread, when the
    program continues after Ctrl-Z; it must redraw."""

    def __init__(self, streams: Streams, resumed: Callable[[], None]) -> None:
        self._streams = streams
        self._console = Console(
            file=cast("IO[str]", _Out(streams)),
            force_terminal=True,
            color_system="standard",
            no_color=not streams.colour,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )
        self._live = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        enter = sends(streams.out, _ENTER)

        def resume() -> None:
            enter()
            resumed()

        self._held = Suspendable(sends(streams.out, _LEAVE), resume)

    def __enter__(self) -> Self:
        self._live.start()
        self._write(_NO_WRAP)
        self._held.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.close()
        try:
            self._write(_WRAP)
        finally:
            self._live.stop()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return self._streams.width, self._streams.height

    def draw(self, lines: Sequence[Text]) -> None:
        """Draws these lines from the top left corner and clears the rest of the screen. Longer
        lines are cut."""
        self._console.size = ConsoleDimensions(*self.size)
        for line in lines:
            line.no_wrap, line.overflow = True, "crop"
        self._live.update(Group(*lines), refresh=True)

    def clear(self) -> None:
        """Clears the screen after something else has written on it."""
        self._write(b"\x1b[2J")

    def _write(self, data: bytes) -> None:
        self._streams.out.write(data)
        self._streams.out.flush()
