"""An HTTP/1.1 client: one connection per address, kept between requests and reopened when the
server has closed it."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import h11
import trio

from pk.net.http.address import Address
from pk.net.http.messages import HttpError, Request, Response, TooLarge, basic

T = TypeVar("T")

ANSWER_BYTES_MAX: Final = 64 << 20
_READ_BYTES: Final = 65_536
_CONNECTION_LOST: Final = (
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    h11.RemoteProtocolError,
)


class HttpClient:
    """A client of one server. Requests are sent one after another; several tasks may call it."""

    def __init__(
        self,
        where: Address,
        *,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = 30.0,
        retry_once: bool = True,
    ) -> None:
        """Initialize the client. `retry_once` tells whether to send a request a second time if the
        server closed a kept connection, although it may have received the request."""
        self.where = where
        self._retry_once = retry_once
        self._tls = tls
        self._timeout_s = timeout_s
        self._lock = trio.Lock()
        self._stream: trio.abc.Stream | None = None
        self._connection: h11.Connection | None = None

    async def ask(self, request: Request) -> Response:
        """Send a request and read the response. Raises HttpError, OSError, trio.TooSlowError."""
        async with self._lock:
            try:
                with trio.fail_after(self._timeout_s):
                    return await self._ask(request)
            except BaseException:
                await self._drop()
                raise

    async def _ask(self, request: Request) -> Response:
        kept = self._retry_once and self._stream is not None
        if kept:
            try:
                return await self._send_once(request)
            except _CONNECTION_LOST:
                await self._drop()  # the server closed the connection between two requests
        return await self._as_http_error(lambda: self._send_once(request))

    async def begin(self, request: Request) -> Response:
        """Send a request and read the head of the response; `more` then returns its body, part by
        part. No other request may begin before the body has ended. Raises HttpError, OSError,
        trio.TooSlowError."""
        with trio.fail_after(self._timeout_s):
            return await self._as_http_error(lambda: self._begin(request))

    async def more(self) -> bytes:
        """Return the next part of the body after `begin`, without a time limit; empty at the end.
        Raises HttpError, OSError."""
        return await self._as_http_error(self._part)

    async def _as_http_error(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await ask()
        except _CONNECTION_LOST as e:
            raise HttpError(f"{self.where.url} closed the connection: {e}") from None

    async def _send_once(self, request: Request) -> Response:
        head = await self._begin(request)
        body = bytearray()
        while part := await self._part():
            body += part
            if len(body) > ANSWER_BYTES_MAX:
                raise TooLarge(f"{self.where.url} answers with more than {ANSWER_BYTES_MAX} bytes")
        return Response(head.status, bytes(body), head.headers)

    async def _begin(self, request: Request) -> Response:
        stream, connection = await self._connected()
        headers = {
            "Host": f"{self.where.host}:{self.where.port}",
            "Content-Length": str(len(request.body)),
            **request.headers,
        }
        if self.where.user is not None:
            headers["Authorization"] = basic(self.where.user, self.where.password or "")
        head = h11.Request(
            method=request.method,
            target=self.where.prefix + request.target,
            headers=list(headers.items()),
        )
        data = connection.send(head) or b""
        data += connection.send(h11.Data(data=request.body)) or b""
        data += connection.send(h11.EndOfMessage()) or b""
        await stream.send_all(data)
        found: Any = await self._event(stream, connection)
        headers = {k.decode("ascii"): v.decode("latin-1") for k, v in found.headers}
        return Response(found.status_code, b"", headers)

    async def _part(self) -> bytes:
        stream, connection = await self._connected()
        event = await self._event(stream, connection)
        if isinstance(event, h11.Data):
            return bytes(event.data)
        if connection.our_state is h11.DONE and connection.their_state is h11.DONE:
            connection.start_next_cycle()
        else:
            await self._drop()
        return b""

    async def _event(self, stream: trio.abc.Stream, connection: h11.Connection) -> Any:
        """Return the next event of the response: its head, a part of its body, or its end."""
        while True:
            event: Any = connection.next_event()
            if event is h11.NEED_DATA:
                data = bytes(await stream.receive_some(_READ_BYTES))
                if not data and connection.their_state is h11.SEND_RESPONSE:
                    raise h11.RemoteProtocolError("no answer")
                connection.receive_data(data)
            elif isinstance(event, h11.ConnectionClosed):
                raise h11.RemoteProtocolError("no answer")
            elif not isinstance(event, h11.InformationalResponse):
                return event

    async def _connected(self) -> tuple[trio.abc.Stream, h11.Connection]:
        if self._stream is None or self._connection is None:
            plain = await trio.open_tcp_stream(self.where.host, self.where.port)
            self._stream = plain
            if self.where.scheme == "https":
                context = self._tls or ssl.create_default_context()
                secured = trio.SSLStream(plain, context, server_hostname=self.where.host)
                await secured.do_handshake()
                self._stream = secured
            self._connection = h11.Connection(h11.CLIENT)
        return self._stream, self._connection

    async def _drop(self) -> None:
        stream, self._stream, self._connection = self._stream, None, None
        if stream is not None:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    async def close(self) -> None:
        """Close the connection."""
        await self._drop()
