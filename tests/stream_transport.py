"""Connections without a socket: over any trio stream, or from bytes at hand."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import trio

from pk.core.wire.types import Part
from pk.net.frames import FrameBuffer


def feed(buffer: FrameBuffer, data: bytes) -> bool:
    """Receives all of `data`. Returns False if the server has no memory left."""
    view = memoryview(data)
    while view:
        room = buffer.room()
        if room is None:
            return False
        count = min(len(room), len(view))
        room[:count] = view[:count]
        room.release()
        buffer.received(count)
        view = view[count:]
    return True


class StreamTransport:
    """A trio stream as a connection wants it (`pk.net.transport.Transport`)."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._left = b""
        self.last_sent = float("-inf")
        self.waited_at = float("-inf")

    async def receive(self, buffer: FrameBuffer) -> int | None:
        data = self._left or bytes(await self._stream.receive_some(64 * 1024))
        self.waited_at = perf_counter()
        self._left = b""
        before = len(buffer)
        if not feed(buffer, data):
            self._left = data[len(buffer) - before :]
            return None
        return len(data)

    async def send(self, parts: Sequence[Part]) -> None:
        await self._stream.send_all(
            b"".join(
                [p if isinstance(p, bytes | bytearray | memoryview) else p.read() for p in parts]
            )
        )
        self.last_sent = trio.current_time()

    def send_at_once(self, parts: Sequence[Part]) -> list[Part]:
        """A stream cannot send without waiting."""
        return list(parts)

    async def finish(self) -> None:
        """Does nothing: closing the stream ends it."""

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)
