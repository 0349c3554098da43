"""The signals that end a process of ours in order, and what is left to write to when one was the
end of its terminal."""

import errno
import os
import signal
import termios


def ending_signals() -> tuple[signal.Signals, ...]:
    """SIGINT, SIGTERM, and SIGHUP unless it is ignored, as below `nohup`."""
    always = (signal.SIGINT, signal.SIGTERM)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return always
    return (*always, signal.SIGHUP)


def drop_dead_terminal() -> None:
    """Turns standard streams whose terminal has gone to nothing: what is still to be said must not
    end by an error what is still to be done."""
    for fd in (0, 1, 2):
        try:
            termios.tcgetattr(fd)
        except termios.error as e:
            if e.args[0] == errno.EIO:
                nothing = os.open(os.devnull, os.O_RDWR)
                os.dup2(nothing, fd)
                os.close(nothing)
