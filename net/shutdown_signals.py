"""The signals that shut a process down cleanly, and the standard streams of a process whose
terminal has closed."""

import errno
import os
import signal
import termios


def shutdown_signals() -> tuple[signal.Signals, ...]:
    """Return SIGINT, SIGTERM, and SIGHUP unless it is ignored, as under `nohup`."""
    always = (signal.SIGINT, signal.SIGTERM)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return always
    return (*always, signal.SIGHUP)


def redirect_closed_terminal() -> None:
    """Redirect standard streams to /dev/null if their terminal has closed, so that writing to them
    does not break the rest of the shutdown."""
    for fd in (0, 1, 2):
        try:
            termios.tcgetattr(fd)
        except termios.error as e:
            if e.args[0] == errno.EIO:
                nothing = os.open(os.devnull, os.O_RDWR)
                os.dup2(nothing, fd)
                os.close(nothing)
