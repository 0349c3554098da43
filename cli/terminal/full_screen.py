"""The whole terminal, for `pk top` and `-w`, with prompt-toolkit.

prompt-toolkit uses the terminal in a thread of its own: it reads keys, draws changes, and restores
the terminal however the block ends. The command stays in trio's loop, which gets keys and changes
of the size as calls, in order.

The terminal is in raw mode, in which Ctrl-C and Ctrl-Z are keys. They are converted back to
signals, so that they end or suspend the program as usual, even if its loop hangs.
"""

import io
import os
import signal
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, TextIO, cast

import trio

from pk.cli.terminal.app_thread import AppThread
from pk.cli.terminal.streams import Streams
from pk.cli.terminal.styles import COLORS
from pk.cli.terminal.suspend import Suspendable

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

Piece = tuple[str, str]
"""(text, style); a style is in rich's syntax: `bold red`."""
Line = list[Piece]

_NAMES: Final = {
    "up": "up",
    "down": "down",
    "left": "left",
    "right": "right",
    "home": "home",
    "end": "end",
    "pageup": "page-up",
    "pagedown": "page-down",
    "delete": "delete",
    "escape": "escape",
    "c-i": "tab",
    "s-tab": "back-tab",
    "c-m": "enter",
    "c-j": "enter",
    "c-h": "backspace",
    "f1": "f1",
    "f3": "f3",
    "f4": "f4",
    "f6": "f6",
    "f10": "f10",
    "c-b": "page-up",
    "c-d": "page-down",
    "c-f": "page-down",
    "c-l": "redraw",
    "c-n": "down",
    "c-p": "up",
    "c-u": "clear",
}
"""prompt-toolkit's names of keys → pk's names."""

_ESCAPE_S: Final = 0.05
"""The start of a key's sequence is the escape key if nothing follows within this time."""
_SIZE_S: Final = 0.1
"""How often the size is checked, since SIGWINCH reaches only the main thread."""
_STOP_S: Final = 1.0
"""How long Ctrl-Z waits for the terminal to be restored."""


class FullScreen:
    """The terminal while it is filled."""

    def __init__(
        self, streams: Streams, pressed: Callable[[str], None], resized: Callable[[], None]
    ) -> None:
        """`pressed` is called with the name of a key (`a`, `enter`, `page-down`), and `resized`
        when the size has changed, both in trio's loop."""
        self._streams = streams
        self._pressed = pressed
        self._resized = resized
        self._token = trio.lowlevel.current_trio_token()
        self._lines: Sequence[Line | str] = ()
        self._thread = AppThread()
        self._skips_until = 0.0
        self._interrupted = False
        self._restored, self._continues = threading.Event(), threading.Event()

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return self._streams.width, self._streams.height

    def draw(self, lines: Sequence[Line | str]) -> None:
        """Draw these lines from the top left corner. A text may have colors (as escape sequences);
        a longer line is cut."""
        self._lines = lines
        self._thread.call(lambda app: app.invalidate())

    def redraw(self) -> None:
        """Draw everything again, after something else has written on the terminal."""
        self._thread.call(lambda app: app.renderer.clear())

    @asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Fill the terminal during the block. If the terminal goes away, the block is cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._show, nursery.cancel_scope)
            nursery.start_soon(self._follow_size)
            with Suspendable(self._give_back, self._take_again):
                yield
            nursery.cancel_scope.cancel()

    async def _show(self, scope: trio.CancelScope) -> None:
        await self._thread.run(self._run)
        scope.cancel()

    async def _follow_size(self) -> None:
        size = self.size
        while True:
            await trio.sleep(_SIZE_S)
            if self.size != size:
                size = self.size
                self._resized()

    def _in_loop(self, function: Callable[..., None], *values: object) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function, *values)

    # Ctrl-Z, in the main thread

    def _give_back(self) -> None:
        self._restored.clear()
        self._continues.clear()
        if self._thread.call(lambda app: app.create_background_task(self._stop(app))):
            self._restored.wait(_STOP_S)

    def _take_again(self) -> None:
        self._continues.set()

    # in prompt-toolkit's thread

    async def _stop(self, app: "Application[None]") -> None:
        """Restore the terminal until the program continues."""
        from prompt_toolkit.application import in_terminal

        async with in_terminal():
            self._restored.set()
            # The process is suspended during this wait. This thread has nothing else to do.
            self._continues.wait(_STOP_S)

    def _run(self) -> None:
        from prompt_toolkit.application import Application
        from prompt_toolkit.input import create_input
        from prompt_toolkit.input.defaults import create_pipe_input
        from prompt_toolkit.layout import FormattedTextControl, Layout, Window
        from prompt_toolkit.output import ColorDepth, create_output

        colored = self._streams.color
        with ExitStack() as stack:
            typed = self._streams.in_terminal
            self._thread.app = app = Application[None](
                layout=Layout(Window(FormattedTextControl(self._text), always_hide_cursor=True)),
                key_bindings=self._keys(),
                full_screen=True,
                include_default_pygments_style=False,
                color_depth=ColorDepth.DEPTH_4_BIT if colored else ColorDepth.DEPTH_1_BIT,
                terminal_size_polling_interval=None,
                input=create_input() if typed else stack.enter_context(create_pipe_input()),
                output=create_output(stdout=cast("TextIO", _Out(self._streams))),
            )
            app.timeoutlen = app.ttimeoutlen = _ESCAPE_S
            try:
                app.run(
                    pre_run=self._thread.begin, set_exception_handler=False, handle_sigint=False
                )
            except EOFError:
                return
            except OSError:
                if not self._thread.leaving:
                    raise

    def _text(self) -> "StyleAndTextTuples":
        from prompt_toolkit.formatted_text import ANSI, to_formatted_text

        found: StyleAndTextTuples = []
        for line in self._lines:
            if isinstance(line, str):
                found += to_formatted_text(ANSI(line))
            else:
                found += [(_styled(style), text) for text, style in line]
            found.append(("", "\n"))
        return found[:-1]

    def _keys(self) -> "KeyBindings":
        from prompt_toolkit.input.typeahead import store_typeahead
        from prompt_toolkit.key_binding import KeyBindings

        keys = KeyBindings()

        def press(event: "KeyPressEvent") -> None:
            key = event.key_sequence[-1]
            if self._interrupted:
                store_typeahead(event.app.input, event.key_sequence)
            elif time.monotonic() < self._skips_until:
                if len(key.key) == 1 and "@" <= key.key <= "~":  # the end of a sequence
                    self._skips_until = 0.0
            elif name := _NAMES.get(key.key):
                self._in_loop(self._pressed, name)
            elif len(key.key) == 1 and key.key.isprintable():
                self._in_loop(self._pressed, key.key)

        def skip(event: "KeyPressEvent") -> None:
            self._skips_until = time.monotonic() + _ESCAPE_S

        for name in ("<any>", *_NAMES):
            keys.add(name)(press)
        # prompt-toolkit returns an unknown sequence as an escape and single letters.
        keys.add("escape", "[")(skip)
        keys.add("escape", "O")(skip)

        @keys.add("<bracketed-paste>")
        def _(event: "KeyPressEvent") -> None:
            for char in event.data:
                if char.isprintable():
                    self._in_loop(self._pressed, char)

        @keys.add("c-c")
        def _(event: "KeyPressEvent") -> None:
            if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
                # Keys typed after it are not for this command, but for the shell's next line.
                self._interrupted = True
                store_typeahead(event.app.input, event.app.key_processor.empty_queue())
                os.kill(os.getpid(), signal.SIGINT)

        @keys.add("c-z")
        def _(event: "KeyPressEvent") -> None:
            os.kill(0, signal.SIGTSTP)  # to the other processes of the job too

        return keys


def _styled(style: str) -> str:
    """A style in prompt-toolkit's syntax."""
    return " ".join(f"ansi{word}" if word in COLORS else word for word in style.split())


class _Out(io.TextIOBase):
    """The terminal as a text stream for prompt-toolkit; names that are not UTF-8 are written as
    their original bytes."""

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
