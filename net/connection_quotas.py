"""Limits on new connections per second, and on connections per listener (KIP-402, KIP-612).

- `max.connection.creation.rate` limits the broker, and
  `listener.name.L.max.connection.creation.rate` a listener: above the limit, the listener accepts
  the next connection later. The inter-broker listener is exempt from the broker-wide limit if
  clients have a listener of their own.
- A quota of an address (`connection_creation_rate`, see AlterClientQuotas) limits connections from
  that address: a connection above the limit is closed after a delay, so that the peer does not
  retry at once.
- `listener.name.L.max.connections` limits a listener in addition to the broker's `max.connections`.

The limits may change while the broker runs.
"""

from __future__ import annotations

from typing import Final, cast

import trio

from pk.core.broker.broker import Broker
from pk.core.config import BrokerConfig
from pk.core.config.listener_keys import listener_value
from pk.core.quota.entity import CONNECTION_CREATION_RATE, IP, Quotas, is_address
from pk.core.quota.rates import SampledRate

UNLIMITED: Final = (1 << 31) - 1
RATES_MAX: Final = 10_000
"""The number of addresses whose rates are kept."""
LOOKUP_TIMEOUT_S: Final = 10.0
"""The timeout for looking up a host's addresses."""


class ConnectionQuotas:
    """The connection quotas of one node's listeners."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        config = broker.config
        self._samples = config.quota_window_num
        self._sample_s = float(config.quota_window_size_seconds)
        self._rates: dict[str, SampledRate] = {}
        """The rate of each listener; "" is the broker-wide rate."""
        self._quotas: Quotas = {}
        self._limits: dict[str | None, float] = {}
        """The limit of each address; None is the default."""
        self._by_address: dict[str, SampledRate] = {}
        self.unknown_hosts: list[str] = []
        """Host names with a quota whose addresses must be looked up."""

    def wait_s(self, listener: str) -> float:
        """Count a new connection on a listener. Returns how long to wait before serving this
        connection and the next."""
        config, now_s = self._broker.config, self._broker.clock.time()
        own = listener_value(config, listener, "max.connection.creation.rate")
        waits_s = [self._record(listener, UNLIMITED if own is None else cast(int, own), now_s)]
        broker_wait_s = self._record("", config.max_connection_creation_rate, now_s)
        if not _is_exempt(config, listener):
            waits_s.append(broker_wait_s)
        return max(waits_s)

    def connections_max(self, listener: str) -> int:
        """Return the maximum number of connections of a listener."""
        own = listener_value(self._broker.config, listener, "max.connections")
        return UNLIMITED if own is None else cast(int, own)

    def refusal_delay_s(self, host: str) -> float:
        """Count a new connection from an address. Returns 0 if it is allowed, else how long to wait
        before closing it."""
        if self._broker.image.quotas is not self._quotas:
            self._load_quotas()
        if not self._limits:
            return 0.0
        limit = self._limits.get(host, self._limits.get(None))
        if limit is None:
            return 0.0
        now_s = self._broker.clock.time()
        rate = self._by_address.get(host)
        if rate is None:
            if len(self._by_address) >= RATES_MAX:
                del self._by_address[next(iter(self._by_address))]
            rate = self._by_address[host] = SampledRate(limit, self._samples, self._sample_s)
        rate.limit = limit
        rate.record(1, now_s)
        wait_ms = rate.wait_ms(now_s)
        if wait_ms:
            rate.record(-1, now_s)
        return min(wait_ms / 1000, self._sample_s)

    async def look_up(self) -> None:
        """Look up the addresses of hosts that have a quota."""
        names, self.unknown_hosts = self.unknown_hosts, []
        quotas = self._quotas
        for name in names:
            with trio.move_on_after(LOOKUP_TIMEOUT_S):
                try:
                    found = await trio.socket.getaddrinfo(name, None)
                except (OSError, UnicodeError):
                    continue
                if self._quotas is not quotas:
                    return
                for *_, address in found:
                    self._limits.setdefault(str(address[0]), self._limits[name])

    def _record(self, name: str, limit: int, now_s: float) -> float:
        if limit >= UNLIMITED:
            self._rates.pop(name, None)
            return 0.0
        rate = self._rates.get(name)
        if rate is None:
            rate = self._rates[name] = SampledRate(limit, self._samples, self._sample_s)
        rate.limit = limit
        rate.record(1, now_s)
        return min(rate.wait_ms(now_s) / 1000, self._sample_s)

    def _load_quotas(self) -> None:
        """Load the current quotas of addresses."""
        self._quotas = self._broker.image.quotas
        self._limits, self.unknown_hosts = {}, []
        for entity, values in self._quotas.items():
            names, limit = dict(entity), values.get(CONNECTION_CREATION_RATE)
            if IP not in names or limit is None:
                continue
            name = names[IP]
            self._limits[name] = limit
            if name is not None and not is_address(name):
                self.unknown_hosts.append(name)
        if not self._limits:
            self._by_address = {}


class PacedListener(trio.abc.Listener[trio.SocketStream]):
    """A listener that accepts connections no faster than its quota allows."""

    def __init__(self, inner: trio.SocketListener, quotas: ConnectionQuotas, name: str) -> None:
        self._inner = inner
        self._quotas = quotas
        self._name = name

    async def accept(self) -> trio.SocketStream:
        """Accept the next connection when the quota allows it."""
        stream = await self._inner.accept()
        wait_s = self._quotas.wait_s(self._name)
        if wait_s:
            try:
                await trio.sleep(wait_s)
            except BaseException:
                stream.socket.close()
                raise
        return stream

    async def aclose(self) -> None:
        """Close the listener."""
        await self._inner.aclose()


def _is_exempt(config: BrokerConfig, listener: str) -> bool:
    names = {one.name for one in config.broker_listeners}
    return len(names) > 1 and listener == config.inter_broker_listener_name
