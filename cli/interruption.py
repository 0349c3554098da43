"""Ctrl-C while there is nothing to tidy up: as the process begins and as it ends.

Python answers Ctrl-C by KeyboardInterrupt wherever it happens to be, which is right while a command runs. In the middle of
the imports before it, or while the interpreter takes itself down, nobody catches it, and the user gets a traceback of ours.
There the process just ends. What is imported here is so little that hardly a Ctrl-C meets it.
"""

import os
import signal

_INTERRUPTED = 130
"""`Exit.INTERRUPTED`, without what it takes to import it."""


def _end(*_: object) -> None:
    os._exit(_INTERRUPTED)


def end_on_interrupt() -> None:
    """From here on Ctrl-C ends the process at once, where it would raise KeyboardInterrupt; one that ignores it, as
    does a command in the background of a script, goes on ignoring it. For the main thread."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


class RaisingInterrupts:
    """Ctrl-C raises KeyboardInterrupt while the block runs, where it would end the process at once."""

    _taken = False

    def __enter__(self) -> None:
        if signal.getsignal(signal.SIGINT) is _end:
            self._taken = True
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *_: object) -> None:
        if self._taken:
            signal.signal(signal.SIGINT, _end)
