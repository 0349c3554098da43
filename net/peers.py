"""Channels to other nodes over TCP: the client library's connection under `core/broker/peers.py`'s interface."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import trio

from pk.core.broker.peers import PeerLost
from pk.core.errors import ProtocolError
from pk.net.client.config import ClientConfig
from pk.net.client.connection import Connection, connect
from pk.net.client.errors import ClientError, ConnectFailed
from pk.net.client.results import Node

UNKNOWN_NODE = -1


class NetChannel:
    """A `Channel` over one TCP connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def usable(self) -> bool:
        """See `Channel`."""
        return self._connection.usable

    def when_lost(self, tell: Callable[[], None]) -> None:
        """See `Channel`."""
        self._connection.on_lost = tell

    def version_of(self, api_key: int) -> int:
        """See `Channel`."""
        return self._connection.version_of(api_key)

    async def request(self, request: Any, *, timeout_ms: float, version: int | None = None) -> Any:
        """See `Channel`."""
        try:
            return await self._connection.request(request, version=version, timeout_ms=timeout_ms)
        except (ClientError, ProtocolError) as e:
            raise PeerLost(str(e)) from e

    def close(self) -> None:
        """See `Channel`."""
        self._connection.close()


class NetPeers:
    """`Peers` over TCP. The connections' tasks live in the nursery, and end with it."""

    def __init__(self, nursery: trio.Nursery, *, client_id: str) -> None:
        """`client_id` is what the other side's log calls this node."""
        self._nursery = nursery
        # A channel is kept as long as its owner wants it: silence is no reason to end it.
        self._config = ClientConfig(client_id=client_id, connections_max_idle_ms=-1)

    async def connect(self, host: str, port: int, *, timeout_ms: float) -> NetChannel:
        """See `Peers`."""
        peer = Node(UNKNOWN_NODE, host, port)
        try:
            with trio.fail_after(timeout_ms / 1000):
                connection = await connect(peer, self._config, self._nursery)
        except trio.TooSlowError:
            raise PeerLost(f"{peer.address}: no answer within {timeout_ms:.0f} ms") from None
        except ConnectFailed as e:
            raise PeerLost(str(e), refused=_refused(e.__cause__)) from e
        return NetChannel(connection)


def _refused(error: BaseException | None) -> bool:
    """Whether every address that was tried said that nobody listens there."""
    if isinstance(error, BaseExceptionGroup):
        return all(_refused(one) for one in error.exceptions)
    if isinstance(error, OSError):
        return error.errno == errno.ECONNREFUSED or _refused(error.__cause__)
    return False
