"""Ctrl-Z while something is painted: the terminal is given back for as long as the program is stopped.

A signal's handler runs in the main thread, whichever thread paints (in the shell it is the engine's), and may come in the
middle of a write: what is to be sent then goes past the buffers.
"""

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

_painters: list[tuple[Callable[[], None], Callable[[], None]]] = []


def suspend(*_: object) -> None:
    """What SIGTSTP does: everything painted gives the terminal back, and takes it again once somebody brings us back."""
    for give_back, _take in reversed(_painters):
        give_back()
    os.kill(os.getpid(), signal.SIGSTOP)
    for _give_back, take in _painters:
        take()


class Suspendable:
    """Has Ctrl-Z call `give_back` before the program stops and `take` after it goes on, both in the main thread, from
    `open` to `close`."""

    def __init__(self, give_back: Callable[[], None], take: Callable[[], None]) -> None:
        self._entry = (give_back, take)
        self._heeding = heeding()

    def open(self) -> None:
        _painters.append(self._entry)
        self._heeding = heeding()
        self._heeding.__enter__()

    def close(self) -> None:
        self._heeding.__exit__(None, None, None)
        _painters.remove(self._entry)

    def __enter__(self) -> None:
        self.open()

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def heeding() -> Generator[None]:
    """Has SIGTSTP do that while the block runs; where it is ignored, or is somebody else's already, it stays so. The shell
    does it in the main thread, for what its engine paints."""
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
    """A function that sends bytes to the terminal that a stream is, past the stream's buffer."""

    def send() -> None:
        with suppress(OSError, ValueError):
            os.write(stream.fileno(), data)

    return send


def cursor_back(stream: Any) -> Suspendable:
    """For what hides the cursor while it paints on `stream`: Ctrl-Z shows it again."""
    return Suspendable(sends(stream, b"\x1b[?25h"), sends(stream, b"\x1b[?25l"))
