"""Checks which parts of a file are in memory, since a send from the event loop must not wait for a
disk.

Linux offers two ways. `cachestat` (6.5) counts the cached pages of a range in one call, including
those still being read from the disk. `preadv2` with RWF_NOWAIT returns EAGAIN if a page it reads is
missing (and starts to fetch it); reading one byte of every 32 kB costs twenty times as much for a
megabyte, which is a tenth of the cost of sending it. So for a long range the pages are counted, and
only its last page, which arrives last, is read. Without `cachestat` a byte of each 32 kB is read.
"""

import errno
import functools
import mmap
import os
from collections.abc import Callable

from pk.core.log.non_blocking import WouldBlock

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_CAN_ASK = bool(_NOWAIT) and hasattr(os, "preadv")
_UNKNOWN = frozenset({errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL})
"""Errors of a file system that does not support RWF_NOWAIT."""

_PROBE_BYTES = 32 * 1024
"""The kernel loads and evicts pages in runs larger than this."""

_CACHESTAT = 451
"""The number of the system call on nearly all architectures. On the others the call returns
ENOSYS."""


def resident(fd: int, position: int, length: int) -> bool:
    """Return whether reading this range would not have to wait for the disk; False if that is
    unknown. Raises OSError."""
    if not _CAN_ASK:
        return False
    last = position + length - 1
    probes = range(position, last, _PROBE_BYTES)
    if len(probes) > 2 and (count := _cached_pages()) is not None:
        cached = count(fd, position, length)
        if cached is not None:
            if cached <= last // mmap.PAGESIZE - position // mmap.PAGESIZE:
                return False
            probes = range(0)
    byte = (bytearray(1),)
    try:
        for at in probes:
            os.preadv(fd, byte, at, _NOWAIT)
        os.preadv(fd, byte, max(last, position), _NOWAIT)
    except BlockingIOError:
        return False
    except OSError as e:
        if e.errno in _UNKNOWN:
            return False
        raise
    return True


def pread(fd: int, length: int, position: int) -> bytes:
    """Read the range, up to the end of the file. Raises WouldBlock unless all of it is known to be
    in memory."""
    if not _CAN_ASK:
        raise WouldBlock
    data = bytearray(length)
    got = 0
    with memoryview(data) as view:
        while got < length:
            try:
                count = os.preadv(fd, (view[got:],), position + got, _NOWAIT)
            except BlockingIOError:
                raise WouldBlock from None
            except OSError as e:
                if e.errno in _UNKNOWN:
                    raise WouldBlock from None
                raise
            if not count:
                break
            got += count
    return bytes(data) if got == length else bytes(data[:got])


@functools.cache
def _cached_pages() -> Callable[[int, int, int], int | None] | None:
    """Return a function that counts the cached pages of a range from (descriptor, position,
    length), or returns None if the kernel cannot count those of this file. Returns None itself if
    the kernel never can. Only for Linux with RWF_NOWAIT."""
    import ctypes

    class Range(ctypes.Structure):
        """struct cachestat_range."""

        _fields_ = (("position", ctypes.c_uint64), ("length", ctypes.c_uint64))

    class Stat(ctypes.Structure):
        """struct cachestat."""

        _fields_ = tuple(
            (name, ctypes.c_uint64)
            for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
        )

    try:
        call = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return None
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)

    def count(fd: int, position: int, length: int) -> int | None:
        stat = Stat()
        asked = Range(position, length)
        if call(_CACHESTAT, fd, ctypes.byref(asked), ctypes.byref(stat), 0) != 0:
            return None
        return stat.cached

    with open(os.devnull, "rb") as null:
        return count if count(null.fileno(), 0, 1) is not None else None
