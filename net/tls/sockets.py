"""A socket with TLS that never blocks: OpenSSL works on the socket directly, and trio waits for it.

One task may read while another writes. Data that was partly sent must be sent completely, since
OpenSSL has already encrypted it. So a cancelled send leaves the connection unusable.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Final

import trio

RECORD_BYTES: Final = 16 << 10
"""The number of bytes in one TLS record, which is decrypted as a whole."""
READ_BYTES: Final = 256 << 10
"""The number of bytes to read before other tasks run."""


class NotTls(Exception):
    """The peer does not start with a TLS handshake."""


class TlsSocket:
    """A TLS connection on a socket, which it owns."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, host: str | None) -> None:
        """Initialize the socket. `host` is the required name in the server's certificate; None on
        the server side."""
        sock.setblocking(False)
        self._ssl = context.wrap_socket(
            sock,
            server_side=host is None,
            server_hostname=host or None,
            do_handshake_on_connect=False,
        )
        self._closed = False
        self.last_sent = float("-inf")

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's certificate in DER, if it sent one."""
        return self._ssl.getpeercert(binary_form=True)

    @property
    def peer_certificate_end_s(self) -> float | None:
        """When the certificate of a verified peer expires, in seconds since 1970."""
        end = (self._ssl.getpeercert() or {}).get("notAfter")
        return ssl.cert_time_to_seconds(end) if isinstance(end, str) else None

    async def handshake(self, turn: trio.Lock | None = None) -> None:
        """Do the TLS handshake. Raises ssl.SSLError, OSError.

        A step of the handshake signs, which takes as long as a hundred small requests. Handshakes
        that share `turn` do one step at a time, so that other tasks run in between.
        """
        while True:
            try:
                async with turn or contextlib.nullcontext():
                    self._ssl.do_handshake()
                return
            except ssl.SSLWantReadError:
                await trio.lowlevel.wait_readable(self._ssl)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(self._ssl)

    def read_now(self, room: memoryview) -> int | None:
        """Read the bytes that are available without waiting into `room`. Returns their number; None
        if there are none, 0 at the end. Raises OSError."""
        filled = 0
        enough = min(len(room), READ_BYTES)
        while filled < enough:
            try:
                count = self._ssl.recv_into(room[filled:])
            except ssl.SSLWantReadError:
                return filled or None
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                count = 0
            except OSError:
                if filled:
                    return filled
                raise
            if not count:
                return filled
            filled += count
        return filled

    async def recv_into(self, room: memoryview) -> int:
        """Read into `room`. Returns the number of bytes; 0 at the end. Raises OSError."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            count = self.read_now(room)
            if count is not None:
                await trio.lowlevel.cancel_shielded_checkpoint()
                return count
            await self.wait_readable()

    async def wait_readable(self) -> None:
        """Wait until more data has arrived."""
        await trio.lowlevel.wait_readable(self._ssl)

    async def send(self, data: bytes | bytearray | memoryview) -> int:
        """Send part of `data`, usually all of it. Returns the number of bytes. Raises OSError."""
        while True:
            try:
                return self._ssl.send(data)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(self._ssl)
                self.last_sent = trio.current_time()
            except ssl.SSLWantReadError:
                await trio.lowlevel.wait_readable(self._ssl)

    async def finish(self) -> None:
        """Announce the end of sending, and discard what the peer still sends until it has received
        the announcement."""
        with contextlib.suppress(OSError, ValueError):
            self._ssl.unwrap()
        waste, unread = bytearray(RECORD_BYTES), False
        try:
            self._ssl.shutdown(socket.SHUT_WR)
            while True:
                try:
                    if not socket.socket.recv_into(self._ssl, waste):
                        return
                    unread = True
                except BlockingIOError:
                    if not unread:
                        return
                    await trio.lowlevel.wait_readable(self._ssl)
                    continue
                await trio.lowlevel.checkpoint()
        except OSError:
            return

    def close(self) -> None:
        """Close at once. Tasks that wait for the socket get trio.ClosedResourceError."""
        if not self._closed:
            self._closed = True
            trio.lowlevel.notify_closing(self._ssl)
            self._ssl.close()


async def begins_with_tls(sock: socket.socket) -> bool:
    """Return whether the first bytes of the peer are a TLS handshake. Peeks without reading. Raises
    OSError."""
    while True:
        try:
            first = sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            await trio.lowlevel.wait_readable(sock)
            continue
        return first in (b"\x16", b"")
