"""An HTTP/1.1 server: one task per connection handles its requests one after another. Everything
that a peer can send is limited."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import h11
import trio
from msgspec import Struct
from msgspec.structs import replace

from pk.net.http.messages import Request, Response

logger = logging.getLogger("pk.http")

_READ_BYTES = 65_536


class HttpLimits(Struct, frozen=True):
    """The limits of one server."""

    body_bytes: int = 4 << 20
    """The largest body of a request."""

    bodies_bytes: int = 64 << 20
    """The maximum total size of the bodies of all requests; the first `_READ_BYTES` of each are
    free."""

    head_bytes: int = 32_768
    """The maximum size of a request line with its headers."""

    connections: int = 500
    """The maximum number of open connections. Further connections are closed at once."""

    idle_s: float = 60.0
    """How long a connection may be silent, between requests and within one."""

    requests: int = 64
    """The maximum number of requests that are handled at the same time."""


Handler = Callable[[Request], Awaitable[Response]]
Refusal = Callable[[Request], Response | None]
"""Returns the response that refuses a request, given its head; None to accept it."""


class HttpServer:
    """Passes each request to a handler. The handler must not raise for a client's mistakes."""

    def __init__(
        self,
        handler: Handler,
        *,
        refusal: Refusal | None = None,
        limits: HttpLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._handler = handler
        self._refusal = refusal
        self._limits = limits or HttpLimits()
        self._tls = tls
        self._open = 0
        self._bodies = 0
        self._answering = trio.CapacityLimiter(self._limits.requests)

    async def serve(self, listeners: list[trio.SocketListener]) -> None:
        """Accept connections on the listeners until cancelled."""
        await trio.serve_listeners(self._connection, listeners)

    async def _connection(self, stream: trio.SocketStream) -> None:
        if self._open >= self._limits.connections:
            await trio.aclose_forcefully(stream)
            return
        self._open += 1
        try:
            await self._serve_requests(
                trio.SSLStream(stream, self._tls, server_side=True) if self._tls else stream
            )
        except (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError, OSError):
            pass  # the client has left, or does not speak TLS: nothing to report
        except Exception:
            # An internal error affects one client: it must not end the connections of the others.
            logger.exception("a connection could not be served")
        finally:
            self._open -= 1
            with trio.CancelScope(shield=True), trio.move_on_after(1):
                await trio.aclose_forcefully(stream)

    async def _serve_requests(self, stream: trio.abc.Stream) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes)
        while True:
            wrong: tuple[int, str] | None = None
            try:
                answered = await self._answered(connection, stream)
            except h11.RemoteProtocolError as e:
                # The error would keep the body in memory.
                wrong, answered = (e.error_status_hint, str(e)), None
            if wrong is not None:
                await self._refuse(connection, stream, *wrong)
                await _let_read(stream)
            if answered is None:
                return
            response, is_head = answered
            await self._send(connection, stream, response, head=is_head)
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _answered(
        self, connection: h11.Connection, stream: trio.abc.Stream
    ) -> tuple[Response, bool] | None:
        """Answer the next request. Returns the response and whether the request is a HEAD; None if
        the client has finished or was silent for too long. Raises h11.RemoteProtocolError."""
        memory = _Memory()
        try:
            request, response = await self._request(connection, stream, memory)
            if request is None:
                return None
            if response is None:
                async with self._answering:
                    response = await self._answer(request)
            return response, request.method == "HEAD"
        finally:
            self._bodies -= memory.bytes

    def _grow(self, memory: _Memory, body_bytes: int) -> None:
        """Record the size that a body has reached. Raises h11.RemoteProtocolError."""
        if body_bytes > self._limits.body_bytes:
            raise h11.RemoteProtocolError("Request Entity Too Large", error_status_hint=413)
        more = max(body_bytes - _READ_BYTES, 0) - memory.bytes
        if self._bodies + more > self._limits.bodies_bytes:
            raise h11.RemoteProtocolError("Service Unavailable", error_status_hint=503)
        self._bodies += more
        memory.bytes += more

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._handler(request)
        except Exception:
            logger.exception("%s %s failed", request.method, request.target)
            return Response(500, b'{"error_code":500,"message":"Internal Server Error"}')

    async def _event(self, connection: h11.Connection, stream: trio.abc.Stream) -> Any:
        while True:
            event = connection.next_event()
            if event is not h11.NEED_DATA:
                return event
            if connection.they_are_waiting_for_100_continue:
                continues = h11.InformationalResponse(status_code=100, headers=[])
                await stream.send_all(connection.send(continues) or b"")
            with trio.move_on_after(self._limits.idle_s):
                connection.receive_data(bytes(await stream.receive_some(_READ_BYTES)))
                continue
            return None

    async def _request(
        self, connection: h11.Connection, stream: trio.abc.Stream, memory: _Memory
    ) -> tuple[Request | None, Response | None]:
        """Return the next request, and its refusal; None if the client has finished or was silent
        for too long. The body of a refused request is read and dropped. Raises
        h11.RemoteProtocolError."""
        request: Request | None = None
        refusal: Response | None = None
        body, size = bytearray(), 0
        while True:
            event = await self._event(connection, stream)
            if isinstance(event, h11.Request):
                headers: dict[str, str] = {}
                for name, value in event.headers:
                    key, text = name.decode("ascii"), value.decode("latin-1")
                    # A repeated header is a list, whose parts are joined with commas.
                    headers[key] = f"{headers[key]}, {text}" if key in headers else text
                request = Request(
                    event.method.decode("ascii"), event.target.decode("ascii"), headers
                )
                refusal = self._refusal(request) if self._refusal is not None else None
            elif isinstance(event, h11.Data):
                size += len(event.data)
                if refusal is None:
                    self._grow(memory, size)
                    body += event.data
                elif size > self._limits.body_bytes:
                    raise h11.RemoteProtocolError("Request Entity Too Large", error_status_hint=413)
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None
                return replace(request, body=bytes(body)), refusal
            else:
                return None, None

    async def _send(
        self,
        connection: h11.Connection,
        stream: trio.abc.Stream,
        response: Response,
        *,
        head: bool = False,
    ) -> None:
        headers = [*response.headers.items(), ("Content-Length", str(len(response.body)))]
        data = connection.send(h11.Response(status_code=response.status, headers=headers)) or b""
        if response.body and not head:
            data += connection.send(h11.Data(data=response.body)) or b""
        data += connection.send(h11.EndOfMessage()) or b""
        with trio.move_on_after(self._limits.idle_s):
            await stream.send_all(data)
            return
        raise trio.BrokenResourceError("the client does not read")

    async def _refuse(
        self, connection: h11.Connection, stream: trio.abc.Stream, status: int, why: str
    ) -> None:
        if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        headers = {"Content-Type": "application/json", "Connection": "close"}
        body = f'{{"error_code":{status},"message":"{why.replace(chr(34), chr(39))}"}}'.encode()
        await self._send(connection, stream, Response(status, body, headers))


class _Memory:
    """The part of `HttpLimits.bodies_bytes` that one request uses."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


async def _let_read(stream: trio.abc.Stream) -> None:
    """Let a client that is still sending read its refusal: closing the connection with unread bytes
    would reset it."""
    if not isinstance(stream, trio.SocketStream):
        return
    with trio.move_on_after(1):
        await stream.send_eof()
        while await stream.receive_some(_READ_BYTES):
            pass
