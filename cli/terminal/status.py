"""The status of a running command on standard error: a line, a bar or a table, drawn by rich, and
removed before other output.

rich is imported with the first status, after a second or two, so that a fast command does not
import it.
"""

from typing import TYPE_CHECKING

from pk.cli.terminal.streams import Streams
from pk.cli.terminal.suspend import cursor_back
from pk.cli.terminal.text import cut, escaped

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live


class Status:
    """A place on the terminal at which each new text replaces the previous one."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._live: Live | None = None
        self._held = cursor_back(streams.err)

    def show(self, text: str) -> None:
        """Draw a line, cut to the width of the terminal."""
        from rich.text import Text

        self.draw(Text(cut(escaped(text), self._streams.err_width - 1), no_wrap=True))

    def draw(self, what: "RenderableType") -> None:
        """Draw what rich can render."""
        if self._live is None:
            self._live = self._start()
        self._live.console.width = self._streams.err_width
        self._live.update(what, refresh=True)

    def clear(self) -> None:
        """Remove the status."""
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
