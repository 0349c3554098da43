"""From a stream of bytes to frames, without a socket in sight.

A frame is an int32 size and as many bytes. Its size is the peer's claim, and nothing is allocated
on a claim: the buffer doubles when it is full, so a peer holds at most twice what it really sent. A
connection with nothing half-read holds no buffer at all; thousands of silent ones cost only their
sockets.

A bytearray is zeroed when it is made, and copied when it grows: 20 ms for one of 16 MB, on the
event loop. So a buffer beyond `KEEP_BYTES` is mapped memory, whose pages come as bytes arrive, and
which grows in place.

What all buffers of a server hold together is bounded by `RequestMemory`. The first `FREE_BYTES` of
each are not counted, so that small requests always get through, however many large ones are
stalled.
"""

import mmap
from collections import deque
from collections.abc import Callable

from pk.core.errors import ProtocolError

FREE_BYTES = 64 * 1024
"""What every connection may hold without asking, and the size of a pooled buffer."""

KEEP_BYTES = 4 * 1024 * 1024
"""A buffer larger than this goes when the connection has read everything in it."""

POOLED = 64

_MAPPED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

TLS_HANDSHAKE = b"\x16\x03"
"""How a TLS client begins; taken for the size of a frame it would be 369 MB."""


class RequestMemory:
    """The bytes that all receive buffers of a server may hold together, and small buffers at
    rest."""

    def __init__(self, limit: int, freed: Callable[[], None] = lambda: None) -> None:
        """`freed` is called when somebody gave bytes back."""
        self.limit = limit
        self.used = 0
        self._freed = freed
        self._pool: deque[bytearray] = deque(maxlen=POOLED)
        self.at_rest: set[FrameBuffer] = set()
        """Empty buffers that silent connections keep for the next large request, as long as the
        memory is not needed."""

    def take(self, extra: int) -> bool:
        """Whether `extra` more bytes may be held; they are counted if so."""
        if self.used + extra > self.limit:
            while self.at_rest:
                self.at_rest.pop().give_way()
        if self.used + extra > self.limit:
            return False
        self.used += extra
        return True

    def give(self, extra: int) -> None:
        """Bytes that are held no more."""
        self.used -= extra
        self._freed()

    def small(self) -> bytearray:
        """A buffer of `FREE_BYTES`."""
        return self._pool.pop() if self._pool else bytearray(FREE_BYTES)

    def rest(self, buffer: bytearray) -> None:
        """Keep a small buffer for the next connection that reads."""
        self._pool.append(buffer)


class FrameBuffer:
    """What one connection has received and not yet handled."""

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
        """Space to receive into, at least one byte; None if the server's memory is spent: wait
        and ask again."""
        capacity = len(self.data)
        if self._start == self._end:
            self._start = self._end = 0
            if not capacity:
                self.data = self._memory.small()
            elif capacity > FREE_BYTES:
                self._memory.at_rest.discard(self)
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
        """`count` bytes were written into `room()`. One that came back full is doubled for the next
        time."""
        self._end += count
        capacity = len(self.data)
        if count == capacity < KEEP_BYTES // 4 and self._memory.take(capacity):
            grown = bytearray(capacity * 2)
            grown[: self._end] = self.data
            self.data = grown

    def next_frame(self) -> tuple[int, int] | None:
        """(start, end) in `data` of the next whole frame, without its size; None when it has not
        all come.

        Raises ProtocolError if the size is negative or above `bytes_max`.
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
                    raise ProtocolError("it speaks TLS, and this listener does not")
                raise ProtocolError(
                    f"a frame of {size if size < 1 << 31 else size - (1 << 32)} bytes: "
                    f"socket.request.max.bytes is {self.bytes_max}"
                )
            return None
        if size > self.bytes_max:
            raise ProtocolError(f"a frame of {size} bytes: the limit is {self.bytes_max}")
        self._start = end
        return start + 4, end

    def release(self) -> None:
        """Hold no buffer while there is nothing in it: call before waiting for more."""
        if self._start != self._end or not self.data:
            return
        self._start = self._end = 0
        capacity = len(self.data)
        if isinstance(self.data, bytearray) and capacity == FREE_BYTES:
            self._memory.rest(self.data)
        elif capacity <= KEEP_BYTES:
            self._memory.at_rest.add(self)
            return
        else:
            self._memory.give(capacity - FREE_BYTES)
        self.data = bytearray()

    def give_way(self) -> None:
        """Somebody needs the memory that this empty buffer holds."""
        assert self._start == self._end
        extra, self.data = len(self.data) - FREE_BYTES, bytearray()
        self._memory.give(extra)

    def close(self) -> None:
        """Give everything back."""
        self._memory.at_rest.discard(self)
        if len(self.data) > FREE_BYTES:
            self._memory.give(len(self.data) - FREE_BYTES)
        self.data = bytearray()
        self._start = self._end = 0


def _grown(data: bytearray | mmap.mmap, start: int, end: int) -> bytearray | mmap.mmap:
    """A buffer twice as large that begins with the bytes from `start` to `end`. Views of the old
    one keep what they show."""
    size = len(data) * 2
    if isinstance(data, mmap.mmap) and not start:
        try:
            data.resize(size)
            return data
        except (BufferError, SystemError, OSError):
            pass  # somebody still has a view of it, or this system cannot
    grown = bytearray(size) if size <= KEEP_BYTES else mmap.mmap(-1, size, _MAPPED)
    with memoryview(grown) as new, memoryview(data) as old:
        new[: end - start] = old[start:end]
    return grown
