"""A line on standard error that says what a command is doing, drawn by rich, and removed before
other output.

rich is imported with the first line, after a second or two: a command that finishes at once does
not pay for it.
"""

from typing import TYPE_CHECKING

from pk.cli.terminal.streams import Streams
from pk.cli.terminal.suspend import cursor_back
from pk.cli.terminal.text import cut, escaped

if TYPE_CHECKING:
    from rich.live import Live


class StatusLine:
    """A line that each new text replaces."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._live: Live | None = None
        self._held = cursor_back(streams.err)

    def show(self, text: str) -> None:
        """Draws `text`, cut to the width of the terminal."""
        from rich.text import Text

        if self._live is None:
            self._live = self._start()
        width = self._streams.err_width
        self._live.console.width = width
        self._live.update(Text(cut(escaped(text), width - 1), no_wrap=True), refresh=True)

    def clear(self) -> None:
        """Removes the line."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
            self._held.close()

    def _start(self) -> "Live":
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._streams.err, force_terminal=True, highlight=False)
        live = Live(
            console=console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        live.start()
        self._held.open()
        return live
