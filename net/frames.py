"""Splits a stream of bytes into frames; does not use sockets.

A frame is an int32 size followed by that many bytes. The size is only a claim of the peer, so it
does not determine any allocation: the buffer doubles when it is full, so a peer occupies at most
twice the bytes that it really sent. A connection without a partial frame has no buffer at all, so
thousands of silent connections cost only their sockets.

A bytearray is zeroed when created and copied when it grows, which takes 20 ms on the event loop for
16 MB. So a buffer above `KEEP_BYTES` is mapped memory, which gets pages as bytes arrive and grows
in place.

`RequestMemory` limits the total size of all buffers of a server. The first `FREE_BYTES` of each are
not counted, so that small requests are always received, however many large ones are stalled.
"""

import mmap
from collections import deque
from collections.abc import Callable

from pk.core.errors import ProtocolError

FREE_BYTES = 64 * 1024
"""The number of bytes that every connection may use without limit, and the size of a pooled
buffer."""

KEEP_BYTES = 4 * 1024 * 1024
"""A buffer larger than this is freed when the connection has handled everything in it."""

POOLED = 64

_MAPPED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

TLS_HANDSHAKE = b"\x16\x03"
"""The first bytes of a TLS client. As the size of a frame they would be 369 MB."""


class RequestMemory:
    """The memory that all receive buffers of a server may use together, and a pool of small
    buffers."""

    def __init__(self, limit: int, freed: Callable[[], None] = lambda: None) -> None:
        """Initialize the memory. `freed` is called when bytes have been returned."""
        self.limit = limit
        self.used = 0
        self._freed = freed
        self._pool: deque[bytearray] = deque(maxlen=POOLED)
        self.idle: set[FrameBuffer] = set()
        """The empty buffers that silent connections keep for their next large request until the
        memory is needed."""

    def take(self, extra: int) -> bool:
        """Take `extra` bytes if they are available. Returns whether they were."""
        if self.used + extra > self.limit:
            while self.idle:
                self.idle.pop().free()
        if self.used + extra > self.limit:
            return False
        self.used += extra
        return True

    def give(self, extra: int) -> None:
        """Return bytes that a buffer took."""
        self.used -= extra
        self._freed()

    def small(self) -> bytearray:
        """Return a buffer of `FREE_BYTES`."""
        return self._pool.pop() if self._pool else bytearray(FREE_BYTES)

    def recycle(self, buffer: bytearray) -> None:
        """Keep a small buffer for the next connection that needs one."""
        self._pool.append(buffer)


class FrameBuffer:
    """The bytes that one connection has received but not handled."""

    __slots__ = ("_end", "_memory", "_start", "bytes_max", "data")

    def __init__(self, memory: RequestMemory, frame_bytes_max: int) -> None:
        self._memory = memory
        self.bytes_max = frame_bytes_max
        self.data: bytearray | mmap.mmap = bytearray()
        self._start: int = 0
        self._end: int = 0

    def __len__(self) -> int:
        return self._end - self._start

    def room(self) -> memoryview | None:
        """Return space to receive into, at least one byte; None if the server's memory is used up:
        wait and call again."""
        capacity = len(self.data)
        if self._start == self._end:
            self._start = self._end = 0
            if not capacity:
                self.data = self._memory.small()
            elif capacity > FREE_BYTES:
                self._memory.idle.discard(self)
        elif self._end == capacity:
            waiting = self._end - self._start
            if self._start >= capacity // 2:
                with memoryview(self.data) as view:
                    view[:waiting] = view[self._start : self._end]
            elif self._memory.take(capacity):
                self.data = _grown(self.data, self._start, self._end)
            else:
                return None
            self._start, self._end = 0, waiting
        return memoryview(self.data)[self._end :]

    def received(self, count: int) -> None:
        """Record that `count` bytes were received into `room()`. If they fill it, the next one is
        twice as large."""
        self._end += count
        capacity = len(self.data)
        if count == capacity < KEEP_BYTES // 4 and self._memory.take(capacity):
            grown = bytearray(capacity * 2)
            grown[: self._end] = self.data
            self.data = grown

    def next_frame(self) -> tuple[int, int] | None:
        """Return (start, end) in `data` of the next complete frame, without its size; None if there
        is none yet. Raises ProtocolError if the size is negative or above `bytes_max`.
        """
        start = self._start
        if self._end - start < 4:
            return None
        data = self.data
        size = data[start] << 24 | data[start + 1] << 16 | data[start + 2] << 8 | data[start + 3]
        end = start + 4 + size
        if end > self._end:
            if size > self.bytes_max:
                if bytes(data[start : start + 2]) == TLS_HANDSHAKE:
                    raise ProtocolError("it speaks TLS, but this listener does not")
                raise ProtocolError(
                    f"a frame of {size if size < 1 << 31 else size - (1 << 32)} bytes: "
                    f"socket.request.max.bytes is {self.bytes_max}"
                )
            return None
        if size > self.bytes_max:
            raise ProtocolError(
                f"a frame of {size} bytes: socket.request.max.bytes is {self.bytes_max}"
            )
        self._start = end
        return start + 4, end

    def release(self) -> None:
        """Free the buffer if it is empty. Call this before waiting for more bytes."""
        if self._start != self._end or not self.data:
            return
        self._start = self._end = 0
        capacity = len(self.data)
        if isinstance(self.data, bytearray) and capacity == FREE_BYTES:
            self._memory.recycle(self.data)
        elif capacity <= KEEP_BYTES:
            self._memory.idle.add(self)
            return
        else:
            self._memory.give(capacity - FREE_BYTES)
        self.data = bytearray()

    def free(self) -> None:
        """Free this empty buffer, because its memory is needed."""
        assert self._start == self._end
        extra, self.data = len(self.data) - FREE_BYTES, bytearray()
        self._memory.give(extra)

    def close(self) -> None:
        """Free the buffer and return its memory."""
        self._memory.idle.discard(self)
        if len(self.data) > FREE_BYTES:
            self._memory.give(len(self.data) - FREE_BYTES)
        self.data = bytearray()
        self._start = self._end = 0


def _grown(data: bytearray | mmap.mmap, start: int, end: int) -> bytearray | mmap.mmap:
    """Return a buffer twice as large that begins with the bytes from `start` to `end`. Views of the
    old buffer stay valid."""
    size = len(data) * 2
    if isinstance(data, mmap.mmap) and not start:
        try:
            data.resize(size)
            return data
        except (BufferError, SystemError, OSError):
            pass  # the buffer still has a view, or this system does not support resizing
    grown = bytearray(size) if size <= KEEP_BYTES else mmap.mmap(-1, size, _MAPPED)
    with memoryview(grown) as new, memoryview(data) as old:
        new[: end - start] = old[start:end]
    return grown
