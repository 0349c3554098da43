"""The standard output of the process: opened if it was closed, written completely, and dropped once
its reader has closed it."""

import sys


def open_closed() -> None:
    """Open the null device for each standard stream that was closed (`>&-`), so that no file or
    socket of pk gets its number."""
    import os

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as the process is


def write_whole() -> None:
    """Make standard output write everything. PYTHONUNBUFFERED makes it a raw file, which may write
    only a part when a signal arrives."""
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
    """Print a whole text. Returns the exit code. A closed reader is not an error."""
    from pk.cli.exits import Exit

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
    """Flush standard output and return the exit code. The interpreter would report a full disk,
    which has been reported already, once more by a traceback."""
    if code == 0:
        return print_out("")
    try:
        sys.stdout.flush()
    except OSError:
        drop_output()
    return code


def drop_output() -> None:
    """Drop the rest of standard output: its reader has closed it, which is not an error."""
    import os

    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
