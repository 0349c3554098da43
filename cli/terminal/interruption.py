"""Handles Ctrl-C while pk starts or exits, with nothing to clean up, and makes an interrupted
process die of the signal.

Python raises KeyboardInterrupt wherever Ctrl-C arrives, which is right while a command runs. During
the imports before that, or while the interpreter shuts down, nothing catches the exception, and the
user gets a traceback. In those phases, the process simply ends. This module imports so little that
Ctrl-C hardly ever arrives before it is loaded.

A process that Ctrl-C ended dies of SIGINT, after it has cleaned up. A shell shows exit code 130 in
either case, but a loop in the shell ends only if the child died of the signal.
"""

import atexit
import os
import signal
import sys

_INTERRUPTED = 130
"""`Exit.INTERRUPTED`, without the cost of importing it."""

_end_code = 0
_another_signal = False


def _die() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def _end(*_: object) -> None:
    _die()
    os._exit(_INTERRUPTED)  # if the signal is blocked


def note_signal(number: int) -> None:
    """Record that SIGTERM or SIGHUP ends the command, which then exits with 130 instead of dying of
    SIGINT."""
    global _another_signal
    _another_signal = _another_signal or number != signal.SIGINT


def die_at_exit_of_interrupt(code: int) -> int:
    """Make a process with the exit code of Ctrl-C die of SIGINT at its very end. Returns the
    code."""
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
    """Make Ctrl-C end the process immediately, instead of raising KeyboardInterrupt. A process that
    ignores SIGINT, such as a background command of a script, still ignores it. Call it in the main
    thread."""
    atexit.register(_die_if_interrupted)  # registered first, so that it runs last
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


class RaisingInterrupts:
    """Makes Ctrl-C raise KeyboardInterrupt during the block, instead of ending the process."""

    _taken = False

    def __enter__(self) -> None:
        if signal.getsignal(signal.SIGINT) is _end:
            self._taken = True
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *_: object) -> None:
        if self._taken:
            signal.signal(signal.SIGINT, _end)
