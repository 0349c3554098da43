"""Handles Ctrl-Z while something is drawn: restores the terminal while the program is suspended.

The signal handler runs in the main thread, whichever thread draws (in the shell, the engine's), and
may interrupt a write, so its output bypasses the buffers.
"""

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

_painters: list[tuple[Callable[[], None], Callable[[], None]]] = []


def suspend(*_: object) -> None:
    """Handle SIGTSTP: restore the terminal for everything drawn, suspend, and take the terminal
    again when the program continues."""
    for give_back, _take in reversed(_painters):
        give_back()
    os.kill(os.getpid(), signal.SIGSTOP)
    for _give_back, take in _painters:
        take()


class Suspendable:
    """Something drawn on the terminal. Between `open` and `close`, Ctrl-Z calls `give_back` before
    the program is suspended and `take` after it continues, both in the main thread."""

    def __init__(self, give_back: Callable[[], None], take: Callable[[], None]) -> None:
        self._entry = (give_back, take)
        self._handling_sigtstp = handling_sigtstp()

    def open(self) -> None:
        _painters.append(self._entry)
        self._handling_sigtstp = handling_sigtstp()
        self._handling_sigtstp.__enter__()

    def close(self) -> None:
        self._handling_sigtstp.__exit__(None, None, None)
        _painters.remove(self._entry)

    def __enter__(self) -> None:
        self.open()

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def handling_sigtstp() -> Generator[None]:
    """Handle SIGTSTP with `suspend` during the block, unless it is ignored or already handled. The
    shell does this in the main thread, for what its engine draws."""
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL
    )
    if ours:
        signal.signal(signal.SIGTSTP, suspend)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)


def sends(stream: Any, data: bytes) -> Callable[[], None]:
    """A function that sends bytes to the terminal of a stream, bypassing the stream's buffer."""

    def send() -> None:
        with suppress(OSError, ValueError):
            os.write(stream.fileno(), data)

    return send


def cursor_back(stream: Any) -> Suspendable:
    """Make Ctrl-Z show the cursor again, for code that hides it while it draws on `stream`."""
    return Suspendable(sends(stream, b"\x1b[?25h"), sends(stream, b"\x1b[?25l"))
