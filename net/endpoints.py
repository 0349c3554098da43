"""Binds a broker's listeners, and determines their advertised addresses."""

import errno
import socket

import trio
from msgspec import Struct

from pk.core.broker.node_lifecycle import StartError
from pk.core.config import BrokerConfig, Listener
from pk.core.meta.events import Endpoint

__all__ = ["BoundListener", "StartError", "bind"]

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class BoundListener(Struct, frozen=True):
    """A bound listener; `advertised` is the address that clients are given."""

    name: str
    listeners: list[trio.SocketListener]
    advertised: Endpoint

    @property
    def address(self) -> str:
        """The advertised host:port."""
        return f"{self.advertised.host}:{self.advertised.port}"


async def bind(config: BrokerConfig) -> list[BoundListener]:
    """Bind every listener of `config`. Raises StartError if one cannot be bound; then none remains
    bound."""
    advertised = {listener.name: listener for listener in config.advertised_listeners}
    bound: list[BoundListener] = []
    try:
        for listener in config.listeners:
            bound.append(await _bind(listener, advertised.get(listener.name), config))
    except BaseException:
        for one in bound:
            for listener in one.listeners:
                await trio.aclose_forcefully(listener)
        raise
    return bound


async def _bind(
    listener: Listener, advertised: Listener | None, config: BrokerConfig
) -> BoundListener:
    backlog = config.socket_listen_backlog_size
    try:
        listeners = await trio.open_tcp_listeners(
            listener.port, host=listener.host or None, backlog=max(backlog, 1)
        )
    except OSError as e:
        where = f"{listener.host or '*'}:{listener.port}"
        if e.errno == errno.EADDRINUSE:
            raise StartError(
                f"{where} is in use: another broker may be running; "
                "choose another port, or 0 for any"
            ) from e
        raise StartError(f"cannot listen on {where}: {e.strerror or e}") from e
    port = listeners[0].socket.getsockname()[1]
    host = listener.host
    if advertised is not None:
        host = advertised.host or host
        port = advertised.port or port
    protocol = SECURITY_PROTOCOLS[listener.security_protocol]
    return BoundListener(
        listener.name,
        listeners,
        Endpoint(listener.name, host or socket.gethostname(), port, protocol),
    )
