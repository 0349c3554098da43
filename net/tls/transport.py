"""The server's transport with TLS (`Transport`).

The kernel cannot encrypt a file that it sends, so slices are read, encrypted and sent in pieces: no
answer is completely in memory, and other tasks run between two pieces.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Final

import trio

from pk.core.broker.offload import offload
from pk.core.log.file_slices import FileSlice
from pk.core.wire.types import Part
from pk.net.frames import FrameBuffer
from pk.net.tls.sockets import NotTls, TlsSocket, begins_with_tls
from pk.net.transport import PARTS_AT_ONCE, read_part_nowait

JOIN_BYTES: Final = 64 << 10
"""Smaller parts are joined, since each send is at least one TLS record."""
PIECE_BYTES: Final = 256 << 10
"""The number of bytes to encrypt at a time, which takes a fraction of a millisecond."""


class TlsTransport:
    """A connected TCP socket on which the peer must do a TLS handshake."""

    def __init__(
        self,
        sock: socket.socket,
        context: Callable[[], Awaitable[ssl.SSLContext]],
        turn: trio.Lock,
    ) -> None:
        """Initialize the transport. `context` is called when the handshake begins; all handshakes
        share `turn`."""
        sock.setblocking(False)
        self._socket = sock
        self._context = context
        self._turn = turn
        self._tls: TlsSocket | None = None
        self._closed = False
        self.waited_at = float("-inf")

    @property
    def last_sent(self) -> float:
        """See Transport."""
        return self._tls.last_sent if self._tls is not None else float("-inf")

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's certificate in DER, if it sent a trusted one."""
        return self._tls.peer_certificate if self._tls is not None else None

    async def handshake(self) -> None:
        """Do the TLS handshake. Raises NotTls, TlsError, ssl.SSLError, OSError."""
        if not await begins_with_tls(self._socket):
            raise NotTls
        context = await self._context()
        async with self._turn:
            self._tls = TlsSocket(self._socket, context, None)
        await self._tls.handshake(self._turn)

    def _secured(self) -> TlsSocket:
        assert self._tls is not None, "no handshake yet"
        return self._tls

    async def receive(self, buffer: FrameBuffer) -> int | None:
        """See Transport. This is a checkpoint only if nothing has arrived yet."""
        tls = self._secured()
        while True:
            room = buffer.room()
            if room is None:
                return None
            try:
                count = tls.read_now(room)
            except OSError as e:
                raise trio.BrokenResourceError(str(e)) from e
            finally:
                room.release()
            if count is not None:
                buffer.received(count)
                return count
            buffer.release()
            await tls.wait_readable()
            self.waited_at = perf_counter()

    async def send(self, parts: Sequence[Part]) -> None:
        """See Transport. Joins small parts and slices."""
        pending: list[bytes | bytearray | memoryview] = []
        waiting = 0
        for number, part in enumerate(parts, 1):
            data = read_part_nowait(part)
            if data is None or waiting + len(data) > JOIN_BYTES:
                await self._send(pending)
                pending, waiting = [], 0
            if data is None:
                assert isinstance(part, FileSlice)
                await self._send_file(part)
            else:
                pending.append(data)
                waiting += len(data)
            if not number % PARTS_AT_ONCE:
                await trio.lowlevel.checkpoint()
        await self._send(pending)

    def send_at_once(self, parts: Sequence[Part]) -> list[Part]:
        """See Transport. Sends nothing, since encryption may have to wait for the peer."""
        return list(parts)

    async def _send(self, parts: list[bytes | bytearray | memoryview]) -> None:
        """Send small parts, or a single part."""
        if not parts:
            return
        tls = self._secured()
        view = memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
        while view:
            try:
                sent = await tls.send(view[:PIECE_BYTES])
            except OSError as e:
                raise trio.BrokenResourceError(str(e)) from e
            view = view[sent:]
            if view:
                await trio.lowlevel.checkpoint()

    async def _send_file(self, part: FileSlice) -> None:
        """Send a slice. It is read in a thread if its pages are not in memory. Raises
        BrokenResourceError if the file ends before the slice, since the size has already been
        sent."""
        file, position, left = part.file, part.position, part.length
        part.pin()
        try:
            while left:
                count = min(left, PIECE_BYTES)
                if file.resident(position, count):
                    data = file.pread(count, position)
                else:
                    data = await offload(file.pread, count, position, directory="cold reads")
                if len(data) < count:
                    raise trio.BrokenResourceError(f"{part!r} ends before its length")
                await self._send([data])
                position += count
                left -= count
                if left:
                    await trio.lowlevel.checkpoint()
        except OSError as e:
            raise trio.BrokenResourceError(str(e)) from e
        finally:
            part.unpin()

    async def finish(self) -> None:
        """See Transport."""
        if self._tls is not None:
            await self._tls.finish()
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """See Transport."""
        if self._closed:
            return
        self._closed = True
        if self._tls is not None:
            self._tls.close()
        else:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
