"""Bytes in and bytes out: a socket as the server uses it, and any trio stream in its place.

The socket is used without trio's wrapper, because trio pays a checkpoint for every call: one `recv_into` that succeeds at
once costs a system call here, and only one that would block goes to the loop. Whoever reads in a cycle yields by itself.
"""

import contextlib
import os
import socket
from collections.abc import Sequence
from typing import Protocol

import trio

from pk.core.broker.offload import offload
from pk.core.log.file_slices import FileSlice
from pk.core.wire.types import Part
from pk.net.frames import FrameBuffer

JOIN_BYTES = 64 * 1024
"""Parts below this are joined into one send: copying them costs less than a system call."""

READ_BYTES = 32 * 1024
"""A slice of a file below this is read and joined with what goes before it."""

CHUNK_BYTES = 1 << 20
"""What one sendfile is asked to move: between two of them others run."""


class Transport(Protocol):
    """Where a connection's bytes come from and go to."""

    @property
    def last_sent(self) -> float:
        """When a send that had to wait for the peer last moved, by trio's clock."""
        ...

    async def receive(self, buffer: FrameBuffer) -> int | None:
        """Receive into `buffer`: the bytes that came, 0 at the end, None where the server's memory is spent."""
        ...

    async def send(self, parts: Sequence[Part]) -> None:
        """Send everything. Raises OSError or trio.BrokenResourceError when the peer is gone."""
        ...

    async def finish(self) -> None:
        """Say that nothing more is sent, so that what was sent arrives before `aclose`."""
        ...

    async def aclose(self) -> None:
        """Close at once; whoever waits in receive or send gets trio.ClosedResourceError."""
        ...


def _bytes_of(part: Part) -> bytes | bytearray | memoryview:
    """A part as bytes: a slice is read. Raises BrokenResourceError where the file ends before the slice does: the answer
    says how long it is, and what came next would be taken for the rest."""
    if isinstance(part, bytes | bytearray | memoryview):
        return part
    data = part.read()
    if len(data) != part.length:
        raise trio.BrokenResourceError(f"{part!r} ends before its length")
    return data


class SocketTransport:
    """A connected TCP socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._closed = False
        self.last_sent = float("-inf")

    async def receive(self, buffer: FrameBuffer) -> int | None:
        """See Transport. A checkpoint only where nothing has come yet."""
        while True:
            room = buffer.room()
            if room is None:
                return None
            try:
                count = self._socket.recv_into(room)
            except BlockingIOError:
                room.release()
                buffer.release()
                await trio.lowlevel.wait_readable(self._socket)
                continue
            except (ConnectionError, OSError) as e:
                raise trio.BrokenResourceError(str(e)) from e
            room.release()
            buffer.received(count)
            return count

    async def send(self, parts: Sequence[Part]) -> None:
        """See Transport: small parts joined, file slices by sendfile."""
        pending: list[bytes | bytearray | memoryview] = []
        for part in parts:
            if isinstance(part, FileSlice):
                if part.length <= READ_BYTES and part.resident():
                    pending.append(_bytes_of(part))
                    continue
                await self._send_bytes(pending)
                pending = []
                await self._send_file(part)
            else:
                pending.append(_bytes_of(part))
        await self._send_bytes(pending)

    async def _send_bytes(self, parts: list[bytes | bytearray | memoryview]) -> None:
        if not parts:
            return
        if len(parts) == 1:
            view = memoryview(parts[0])
        elif sum(map(len, parts)) <= JOIN_BYTES:
            view = memoryview(b"".join(parts))
        else:
            for part in parts:
                await self._send_bytes([part])
            return
        while True:
            try:
                sent = self._socket.send(view)
            except BlockingIOError:
                await self._wait_writable()
                continue
            except OSError as e:
                raise trio.BrokenResourceError(str(e)) from e
            if sent == len(view):
                return
            view = view[sent:]

    async def _wait_writable(self) -> None:
        await trio.lowlevel.wait_writable(self._socket)
        self.last_sent = trio.current_time()

    async def _send_file(self, part: FileSlice) -> None:
        """The slice, by sendfile where its pages are in memory, else read in a thread first.

        Raises BrokenResourceError when the file ends before the slice does: the size is already sent, so the
        connection cannot go on.
        """
        file, position, left = part.file, part.position, part.length
        part.pin()
        try:
            while left:
                count = min(left, CHUNK_BYTES)
                if not file.resident(position, count):
                    await offload(file.pread, count, position, directory="cold reads")
                descriptor = part.fileno()
                if descriptor is None:
                    raise trio.BrokenResourceError(f"{part!r} has no descriptor")
                try:
                    sent = os.sendfile(self._socket.fileno(), descriptor, position, count)
                except BlockingIOError:
                    await self._wait_writable()
                    continue
                except OSError as e:
                    if not isinstance(e, ConnectionError | TimeoutError):
                        # Of the file, perhaps: who reads it finds out, and a failing disk is told of (`Disk.read_failed`).
                        with contextlib.suppress(OSError):
                            await offload(file.pread, count, position, directory="cold reads")
                    raise trio.BrokenResourceError(str(e)) from e
                if not sent:
                    raise trio.BrokenResourceError(f"{part!r} ends before its length")
                position += sent
                left -= sent
                if left:
                    await trio.lowlevel.checkpoint()
        finally:
            part.unpin()

    async def finish(self) -> None:
        """See Transport. A socket that is closed with bytes unread resets the connection, and takes from the peer what
        it has not read yet: so where there are any they are read away, until the peer has seen our end."""
        waste, unread = bytearray(64 * 1024), False
        try:
            self._socket.shutdown(socket.SHUT_WR)
            while True:
                try:
                    if not self._socket.recv_into(waste):
                        return
                    unread = True
                except BlockingIOError:
                    if not unread:
                        return
                    await trio.lowlevel.wait_readable(self._socket)
                    continue
                await trio.lowlevel.checkpoint()
        except OSError:
            return

    async def aclose(self) -> None:
        """See Transport."""
        if not self._closed:
            self._closed = True
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class StreamTransport:
    """Any trio stream: memory streams of tests and simulation, TLS."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._left = b""
        self.last_sent = float("-inf")

    async def receive(self, buffer: FrameBuffer) -> int | None:
        """See Transport."""
        data = self._left or bytes(await self._stream.receive_some(64 * 1024))
        self._left = b""
        before = len(buffer)
        if not buffer.feed(data):
            self._left = data[len(buffer) - before :]
            return None
        return len(data)

    async def send(self, parts: Sequence[Part]) -> None:
        """See Transport."""
        await self._stream.send_all(b"".join(map(_bytes_of, parts)))
        self.last_sent = trio.current_time()

    async def finish(self) -> None:
        """See Transport. A stream's own close does it."""

    async def aclose(self) -> None:
        """See Transport."""
        await trio.aclose_forcefully(self._stream)
