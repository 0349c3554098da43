"""Sends and receives bytes: the interface that a connection needs, and its implementation on a
socket.

The socket is used without trio's wrapper, which adds a checkpoint to every call. Here a `recv_into`
that succeeds at once costs only a system call, and only a call that would block waits in the loop.
So a reader in a loop must yield by itself.
"""

import contextlib
import os
import socket
from collections.abc import Sequence
from time import perf_counter
from typing import Protocol

import trio

from pk.core.broker.offload import offload
from pk.core.log.file_slices import FileSlice
from pk.core.wire.types import Part, Slice
from pk.net.frames import FrameBuffer

JOIN_BYTES = 64 * 1024
"""Smaller parts are joined into one send: copying them costs less than a system call."""

PARTS_AT_ONCE = 1024
"""The number of parts to send before other tasks run."""

READ_BYTES = 32 * 1024
"""A smaller slice of a file is read and joined with the data before it."""

CHUNK_BYTES = 1 << 20
"""The number of bytes per sendfile. Other tasks run between two calls."""

JOINED_BYTES = 4096
"""The number of bytes at the end of a slice that are read and sent together with the bytes after
the slice, such as the last three of a Fetch response. Sending those separately would double the
kernel's cost for a megabyte."""

IN_MEMORY_S = 1.0
"""After a wait for the peer that is longer than this, check again whether the next pages are in
memory."""


class Transport(Protocol):
    """The interface by which a connection receives and sends bytes."""

    @property
    def last_sent(self) -> float:
        """When a send that had to wait for the peer last made progress, by trio's clock."""
        ...

    @property
    def waited_at(self) -> float:
        """When `receive` last had to wait for the peer, so that other tasks ran, by
        perf_counter."""
        ...

    async def receive(self, buffer: FrameBuffer) -> int | None:
        """Receive into `buffer`. Returns the number of bytes; 0 at the end, None if the server's
        memory is used up."""
        ...

    async def send(self, parts: Sequence[Part]) -> None:
        """Send everything. Raises OSError or trio.BrokenResourceError if the connection is lost."""
        ...

    def send_at_once(self, parts: Sequence[Part]) -> list[Part]:
        """Send as much as possible without waiting, and return the rest. Raises the same errors as
        `send`."""
        ...

    async def finish(self) -> None:
        """Announce the end of sending, so that all sent data arrives before `aclose`."""
        ...

    async def aclose(self) -> None:
        """Close at once. A task that waits in receive or send gets trio.ClosedResourceError."""
        ...


def read_part_nowait(part: Part) -> bytes | bytearray | memoryview | None:
    """Return a part as bytes, reading it if it is a slice. Returns None for a large slice, or one
    that may have to wait for the disk. Raises BrokenResourceError."""
    if isinstance(part, bytes | bytearray | memoryview):
        return part
    if not isinstance(part, FileSlice):
        return part.read()
    data = part.read_nowait() if part.length <= READ_BYTES else None
    return None if data is None else _check_complete(part, data)


def _check_complete(part: Slice, data: bytes) -> bytes:
    """Return the data of a slice. Raises BrokenResourceError if the file ends before the slice: the
    answer's length has been sent, so the client would take the next answer for the rest of this
    one."""
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
        self.waited_at = float("-inf")

    async def receive(self, buffer: FrameBuffer) -> int | None:
        """See Transport. This is a checkpoint only if nothing has arrived yet."""
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
                self.waited_at = perf_counter()
                continue
            except (ConnectionError, OSError) as e:
                raise trio.BrokenResourceError(str(e)) from e
            room.release()
            buffer.received(count)
            return count

    async def send(self, parts: Sequence[Part]) -> None:
        """See Transport. Joins small parts, and sends slices of files by sendfile."""
        pending: list[bytes | bytearray | memoryview] = []
        waiting = 0
        for number, part in enumerate(parts, 1):
            data = read_part_nowait(part)
            if data is None:
                assert isinstance(part, FileSlice)
                await self._send_bytes(pending)
                joined = JOINED_BYTES if number < len(parts) and part.length > READ_BYTES else 0
                pending = [await self._send_file(part, joined)]
                waiting = joined
            else:
                if waiting + len(data) > JOIN_BYTES:
                    await self._send_bytes(pending)
                    pending, waiting = [], 0
                pending.append(data)
                waiting += len(data)
            if not number % PARTS_AT_ONCE:
                await trio.lowlevel.checkpoint()
        await self._send_bytes(pending)

    def send_at_once(self, parts: Sequence[Part]) -> list[Part]:
        """See Transport. Sends as much as one call does."""
        if len(parts) == 1 and isinstance(first := parts[0], bytes):
            left = self._send_now(first)
            return [] if left is None else [left]
        pending: list[bytes | bytearray | memoryview] = []
        waiting = 0
        for part in parts:
            data = read_part_nowait(part)
            if data is None or waiting + len(data) > JOIN_BYTES:
                break
            pending.append(data)
            waiting += len(data)
        rest = list(parts[len(pending) :])
        if waiting:
            data = pending[0] if len(pending) == 1 else b"".join(pending)
            left = self._send_now(data)
            if left is not None:
                rest.insert(0, left)
        return rest

    def _send_now(self, data: bytes | bytearray | memoryview) -> memoryview | None:
        """Send as much as possible in one call without waiting. Returns the rest."""
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as e:
            raise trio.BrokenResourceError(str(e)) from e
        return None if sent == len(data) else memoryview(data)[sent:]

    async def _send_bytes(self, parts: list[bytes | bytearray | memoryview]) -> None:
        """Send small parts, or a single part, in one call."""
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        view = self._send_now(data) if data else None
        if view is None:
            return
        await self._wait_writable()
        while view:
            try:
                sent = self._socket.send(view)
            except BlockingIOError:
                await self._wait_writable()
                continue
            except OSError as e:
                raise trio.BrokenResourceError(str(e)) from e
            view = view[sent:]

    async def _wait_writable(self) -> None:
        await trio.lowlevel.wait_writable(self._socket)
        self.last_sent = trio.current_time()

    async def _send_file(self, part: FileSlice, kept: int) -> bytes:
        """Send the slice except its last `kept` bytes, and return those. Uses sendfile if the pages
        are in memory; otherwise reads them in a thread first. Raises BrokenResourceError if the
        file ends before the slice: the size has already been sent, so the connection cannot
        continue.
        """
        file, position, left = part.file, part.position, part.length
        in_memory = position  # the end of the pages in memory
        part.pin()
        try:
            descriptor = part.fileno()
            if descriptor is None:
                raise trio.BrokenResourceError(f"{part!r} has no descriptor")
            while left > kept:
                if in_memory <= position:
                    count = min(left, CHUNK_BYTES)
                    if not file.resident(position, count):
                        await offload(file.pread, count, position, directory="cold reads")
                    in_memory = position + count
                count = min(in_memory - position, left - kept)
                try:
                    sent = os.sendfile(self._socket.fileno(), descriptor, position, count)
                    if not sent:
                        raise trio.BrokenResourceError(f"{part!r} ends before its length")
                except BlockingIOError:
                    sent = 0
                except OSError as e:
                    if not isinstance(e, ConnectionError | TimeoutError):
                        # The file may have failed. Reading it will show that, and report a failing
                        # disk (`Disk.read_failed`).
                        with contextlib.suppress(OSError):
                            await offload(file.pread, count, position, directory="cold reads")
                    raise trio.BrokenResourceError(str(e)) from e
                position += sent
                left -= sent
                if sent < count:
                    since = trio.current_time()
                    await self._wait_writable()
                    if self.last_sent - since > IN_MEMORY_S:
                        in_memory = position
                elif left > kept:
                    await trio.lowlevel.checkpoint()
            if not left:
                return b""
            if in_memory < position + left and not file.resident(position, left):
                rest = await offload(file.pread, left, position, directory="cold reads")
            else:
                rest = file.pread(left, position)
            if len(rest) != left:
                raise trio.BrokenResourceError(f"{part!r} ends before its length")
            return rest
        finally:
            part.unpin()

    async def finish(self) -> None:
        """See Transport. Closing a socket with unread bytes resets the connection, and the peer
        loses the bytes that it has not read yet. So unread bytes are discarded until the peer has
        received the end of ours."""
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
