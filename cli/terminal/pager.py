"""Shows output that is taller than the terminal in the user's pager."""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading

_CODES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")

_LESS = "-FRSX"
_LESS_PROMPT = r"-Psspace\: next page, /\: search, q\: quit ?e(END).$"
"""The default prompt of less is a colon, which does not say that q quits."""


def paged(text: str) -> bool:
    """Show a text for people in the pager if it is taller than the terminal. Returns False if it
    fits, or if standard input or output is not a terminal."""
    data = text.encode()
    if not _is_interactive() or not is_tall(data, 1):
        return False
    sys.stdout.flush()
    return page(data)


def is_tall(data: bytes, spare: int) -> bool:
    """Whether `data` does not fit the terminal on standard output with `spare` lines left."""
    size = os.get_terminal_size(sys.stdout.fileno())
    return height_of(data, size.columns or 80) > (size.lines or 24) - spare


def page(data: bytes) -> bool:
    """Show `data` with $PK_PAGER, $PAGER or less. Returns False if none of them starts."""
    if os.environ.get("TERM", "dumb") in ("dumb", ""):
        return False
    named = (os.environ.get(name, "").strip() for name in ("PK_PAGER", "PAGER"))
    words = next(filter(None, named), "less")
    less = os.environ.get("LESS", _LESS)
    if "-P" not in less:
        less = f"{less} {_LESS_PROMPT}"
    environment = {"LESSCHARSET": "utf-8", **os.environ, "LESS": less}
    try:
        command = shlex.split(words)
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=sys.stdout.fileno(), env=environment
        )
    except (OSError, ValueError):
        return False
    # The pager handles Ctrl-C. If pk ended first, the pager would keep the terminal.
    own = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if own else None
    try:
        assert process.stdin is not None
        try:
            process.stdin.write(data)
            process.stdin.close()
        except BrokenPipeError:
            pass  # the user closed the pager early
        process.wait()
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    return True


def _is_interactive() -> bool:
    try:
        return sys.stdin.isatty() and sys.stdout.isatty()
    except (AttributeError, ValueError):
        return False


def height_of(data: bytes, columns: int) -> int:
    """The number of screen lines that `data` needs."""
    lines = _CODES.sub(b"", data).removesuffix(b"\n").split(b"\n")
    return sum(1 + max(len(line.decode(errors="replace")) - 1, 0) // columns for line in lines)
