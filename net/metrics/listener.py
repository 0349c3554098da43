"""The listener of `pk.metrics.listener`: serves /metrics, /healthz and /readyz over HTTP.

`/metrics?name[]=NAME` returns only the metrics with these names, like Prometheus' own libraries;
the parameter may be repeated.

/healthz returns 200 as long as the node's event loop runs; /readyz returns 200 while clients are
served, and 503 while the node starts, waits for its controller, or stops.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from pk.core.broker.node_lifecycle import StartError
from pk.core.broker.offload import offload
from pk.core.metrics import Metric
from pk.net.http.messages import HttpError, Request, Response
from pk.net.http.server import HttpLimits, HttpServer
from pk.net.metrics.exposition import exposition

LIMITS: Final = HttpLimits(body_bytes=0, connections=64, requests=2)

Collect = Callable[[], Awaitable[Sequence[Metric]]]
Ready = Callable[[], str | None]
"""A function that returns why the node is not ready; None if it is."""


class MetricsListener:
    """The listener for metrics and health checks; see the top of this file."""

    def __init__(self, collect: Collect, ready: Ready) -> None:
        self._collect = collect
        self._ready = ready
        self._listeners: list[trio.SocketListener] = []

    async def bind(self, host: str, port: int) -> None:
        """Bind the listener. Raises StartError."""
        try:
            self._listeners = await trio.open_tcp_listeners(port, host=host or None)
        except OSError as e:
            why = "is in use" if e.errno == errno.EADDRINUSE else str(e.strerror or e)
            raise StartError(f"pk.metrics.listener: {host or '*'}:{port} {why}") from e

    @property
    def port(self) -> int:
        """The port that the listener is bound to."""
        return self._listeners[0].socket.getsockname()[1]

    async def serve(self) -> None:
        """Serve requests until cancelled."""
        await HttpServer(self._answer, limits=LIMITS).serve(self._listeners)

    async def _answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return _text(405, "GET and HEAD only\n", {"Allow": "GET, HEAD"})
        match request.path:
            case ("metrics",):
                accept = request.headers.get("accept", "")
                try:
                    names = frozenset(value for key, value in request.query if key == "name[]")
                except HttpError as e:
                    return _text(400, f"{e}\n")
                metrics = list(await self._collect())
                body, content_type = await offload(exposition, metrics, accept, names)
                return Response(200, body, {"Content-Type": content_type})
            case ("healthz",):
                return _text(200, "ok\n")
            case ("readyz",):
                why = self._ready()
                return _text(200, "ready\n") if why is None else _text(503, f"{why}\n")
            case _:
                return _text(404, "/metrics, /healthz and /readyz are here\n")


def _text(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    content_type = {"Content-Type": "text/plain; charset=utf-8"}
    return Response(status, text.encode(), content_type | (headers or {}))
