"""Waits for input in a way that Ctrl-C always ends.

Python records a signal and runs its handler between two steps of its own code. If the signal
arrives in the microseconds before a read blocks, the handler runs only after the next line is
typed. Therefore this module blocks in a `select` that also watches the pipe to which Python writes
each signal's number.
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
    """Wait until `source`, whose buffer is empty, is readable or at its end. Meanwhile, run signal
    handlers, and raise their errors."""
    try:
        fd = source.fileno()
    except OSError:
        return  # not a system file, so all its data is available
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
    """Yield each line, with its end, as soon as it is complete."""
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
