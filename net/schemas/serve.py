"""Starts an instance of the registry: its port, its log, its election."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import trio
from msgspec import Struct, field

from pk.net.http.address import address
from pk.net.http.client import HttpClient
from pk.net.http.messages import Request
from pk.net.http.server import HttpLimits, HttpServer
from pk.net.schemas.election import Identity
from pk.net.schemas.registry import Registry, Settings
from pk.net.schemas.rest import Rest


class Listening(Struct, frozen=True):
    """The addresses and settings for listening."""

    host: str = "127.0.0.1"
    port: int = 8081
    advertised_host: str | None = None
    """The host at which other instances reach this one, if it is not the bound host."""

    tls: ssl.SSLContext | None = None
    forward_tls: ssl.SSLContext | None = None
    """The TLS settings for checking the leader's certificate."""

    authenticate: Callable[[Request], bool] | None = None
    limits: HttpLimits = field(default_factory=HttpLimits)


async def serve_registry(
    settings: Settings,
    listening: Listening,
    *,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled. Calls `started` with the URL once the registry answers. Raises OSError
    if it cannot listen; LogError, KafkaError, ClientError if it cannot use its log.
    """
    listeners = await trio.open_tcp_listeners(listening.port, host=listening.host)
    port = listeners[0].socket.getsockname()[1]
    own = Identity(
        listening.advertised_host or listening.host,
        port,
        "https" if listening.tls is not None else "http",
        settings.eligible,
    )
    registry = Registry(settings, own)
    rest = Rest(
        registry,
        authenticate=listening.authenticate,
        forwarder=lambda url: HttpClient(address(url), tls=listening.forward_tls),
    )
    server = HttpServer(
        rest.handle, refusal=rest.refusal, limits=listening.limits, tls=listening.tls
    )
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(registry.run)
            nursery.start_soon(server.serve, listeners)
            task_status.started(own.url)
    finally:
        with trio.CancelScope(shield=True):
            await rest.close()
            for each in listeners:
                await each.aclose()
