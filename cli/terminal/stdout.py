"""The standard output of the process: opened where it was closed, written whole, and dropped when
its reader has gone."""

import sys


def open_closed() -> None:
    """Puts nothing where a standard stream was closed (`>&-`): no file or socket of ours is to take
    its number."""
    import os

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as the process is


def write_whole() -> None:
    """Has standard output write all it is given. With PYTHONUNBUFFERED it is a raw file, which
    writes but a part when a signal comes, and does not check how much that was."""
    import io

    old = sys.stdout
    if isinstance(old.buffer, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(old.buffer),
            encoding=old.encoding,
            errors=old.errors,
            line_buffering=True,
        )


def print_out(text: str) -> int:
    """Prints a whole text; the exit code. A reader that has gone is no error."""
    from pk.cli.runtime.exits import Exit

    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
    except OSError as e:
        drop_output()
        sys.stderr.write(f"{e.strerror}.\n")
        return Exit.FAILED
    return Exit.OK


def flushed(code: int) -> int:
    """Writes what is left of standard output; the exit code. Left to the interpreter, a disk that
    is full (which has been reported) would be reported once more, by a traceback."""
    if code == 0:
        return print_out("")
    try:
        sys.stdout.flush()
    except OSError:
        drop_output()
    return code


def drop_output() -> None:
    """Sends what is left of standard output nowhere: its reader has gone, which is no error."""
    import os

    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
