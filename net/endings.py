"""The signals that shut a process down cleanly, and what to do with standard streams after a hangup
of the terminal."""

import errno
import os
import signal
import termios


def ending_signals() -> tuple[signal.Signals, ...]:
    """SIGINT, SIGTERM, and SIGHUP unless it is ignored, as under `nohup`."""
    always = (signal.SIGINT, signal.SIGTERM)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return always
    return (*always, signal.SIGHUP)


def drop_dead_terminal() -> None:
    """Redirect standard streams whose terminal is gone to /dev/null, so that writing to them does
    not break the rest of the shutdown."""
    for fd in (0, 1, 2):
        try:
            termios.tcgetattr(fd)
        except termios.error as e:
            if e.args[0] == errno.EIO:
                nothing = os.open(os.devnull, os.O_RDWR)
                os.dup2(nothing, fd)
                os.close(nothing)
