"""Ctrl-C while there is nothing to clean up, as the process begins and ends; and how a process that Ctrl-C ended dies.

Python answers Ctrl-C by KeyboardInterrupt wherever it happens to be, which is right while a command runs. In the middle of
the imports before it, or while the interpreter takes itself down, nobody catches it, and the user gets a traceback of ours.
There the process just ends. What is imported here is so little that hardly a Ctrl-C meets it.

A process that Ctrl-C ended dies of SIGINT, after it has cleaned up. A shell shows exit code 130 either way, but only a child
that died of the signal ends the shell's loop, too.
"""

import atexit
import os
import signal
import sys

_INTERRUPTED = 130
"""`Exit.INTERRUPTED`, without what it takes to import it."""

_end_code = 0
_another_signal = False


def _die() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def _end(*_: object) -> None:
    _die()
    os._exit(_INTERRUPTED)  # where the signal is blocked


def note_signal(number: int) -> None:
    """Remembers that SIGTERM or SIGHUP ends the command: it exits with 130 then, and does not die of SIGINT."""
    global _another_signal
    _another_signal = _another_signal or number != signal.SIGINT


def die_at_exit_of_interrupt(code: int) -> int:
    """Lets a process with the exit code of Ctrl-C die of SIGINT as the last thing it does; returns the code."""
    global _end_code
    _end_code = code
    return code


def _die_if_interrupted() -> None:
    ours = _end_code == _INTERRUPTED and not _another_signal
    if not ours or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    _die()


def end_on_interrupt() -> None:
    """From here on Ctrl-C ends the process at once, where it would raise KeyboardInterrupt; one that ignores it, as
    does a command in the background of a script, goes on ignoring it. For the main thread."""
    atexit.register(_die_if_interrupted)  # the first to be registered, so the last to run
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
