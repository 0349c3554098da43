"""Waiting for input in a way that Ctrl-C always ends.

Python notes a signal and runs its handler when it is back from whatever it is doing. One that comes in the microseconds before
a read blocks is noted, and heard when the next line is typed. So what blocks here is a `select` that also watches the pipe
into which Python writes each signal's number, whenever it comes.
"""

import os
import select
import signal
import threading
from collections.abc import Iterator
from io import BufferedReader
from typing import IO, BinaryIO, cast

READ_BYTES = 1 << 16


def wait_for_input(source: IO[bytes]) -> None:
    """Until `source`, with nothing in its buffer, can be read, or is at its end; signals are handled meanwhile, and what a
    handler raises comes from here."""
    try:
        fd = source.fileno()
    except OSError:
        return  # not a file of the system's: it has all it will ever have
    if threading.current_thread() is not threading.main_thread():
        return  # no signal is handled here
    heard, tell = os.pipe()
    os.set_blocking(tell, False)
    before = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    try:
        while fd not in (ready := select.select([fd, heard], [], [])[0]):
            if heard in ready:
                os.read(heard, READ_BYTES)
    finally:
        signal.set_wakeup_fd(before)
        os.close(heard)
        os.close(tell)


def lines_of(source: BinaryIO) -> Iterator[bytes]:
    """Each line, with its end, as soon as it is there."""
    rest = b""
    while True:
        wait_for_input(source)
        data = cast("BufferedReader", source).read1(READ_BYTES)
        if not data:
            break
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line + b"\n"
    if rest:
        yield rest
