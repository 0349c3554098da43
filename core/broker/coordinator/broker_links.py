"""One channel to each other broker, opened when it is first needed and again after it broke: for
the requests between brokers and coordinators."""

from __future__ import annotations

from typing import Any, Final

import trio

from pk.core.broker.peers import Channel, PeerLost, Peers
from pk.core.broker.state import BrokerState

CONNECT_MS: Final = 5_000


class BrokerLinks:
    """Channels by node. A channel keeps the order of its requests, so each purpose has links of its
    own."""

    def __init__(self, state: BrokerState, peers: Peers) -> None:
        self._state = state
        self._peers = peers
        self._channels: dict[int, Channel] = {}
        self._connecting: dict[int, trio.Lock] = {}

    async def request(self, node_id: int, request: Any, *, timeout_ms: float) -> Any:
        """Return the response of another broker. Raises PeerLost,
        KafkaError(UNSUPPORTED_VERSION)."""
        channel = await self._channel(node_id)
        return await channel.request(request, timeout_ms=timeout_ms)

    def close(self) -> None:
        """Close the connections."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    async def _channel(self, node_id: int) -> Channel:
        lock = self._connecting.setdefault(node_id, trio.Lock())
        async with lock:
            known = self._channels.get(node_id)
            if known is not None and known.usable:
                return known
            endpoint = self._state.inter_broker_endpoint(node_id)
            if endpoint is None:
                raise PeerLost(f"the address of broker {node_id} is unknown")
            if known is not None:
                known.close()
            channel = await self._peers.connect(endpoint.host, endpoint.port, timeout_ms=CONNECT_MS)
            self._channels[node_id] = channel
            return channel
