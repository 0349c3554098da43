"""The broker's server: listeners, limits on connections, closing of idle connections, and an
orderly shutdown."""

from __future__ import annotations

import logging
import resource
import socket
from collections import Counter
from collections.abc import Iterable

import trio

from pk.core.api.registry import Api
from pk.core.broker.broker import Broker
from pk.core.broker.requests.context import Context
from pk.core.config import BrokerConfig
from pk.core.log.disk import SHARE_OF_DESCRIPTORS
from pk.net.connection.connection import Connection, Limits
from pk.net.connection_quotas import ConnectionQuotas, PacedListener
from pk.net.frames import RequestMemory
from pk.net.listener_security import ListenerSecurity
from pk.net.tls.transport import TlsTransport
from pk.net.transport import SocketTransport, Transport

logger = logging.getLogger("pk.server")

IDLE_CHECK_S = 5
"""How often to check for idle connections."""

REFUSALS_LOGGED_S = 1.0
"""The interval for logging refusals, so that many clients do not flood the log."""

RESERVED_DESCRIPTORS = 32
"""Descriptors for listeners, locks, the event loop, and files that are open briefly."""


def descriptors_for_connections() -> int:
    """Return the number of descriptors of this process that are neither the logs'
    (core/log/disk.py) nor reserved. If connections used more, an append that has to open its file
    would fail, and with it the log directory.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return 1 << 31
    return max(int(limit * (1 - SHARE_OF_DESCRIPTORS)) - RESERVED_DESCRIPTORS, 1)


class Server:
    """Serves a broker's APIs on sockets."""

    def __init__(self, broker: Broker, apis: Iterable[Api], config: BrokerConfig) -> None:
        self._broker = broker
        self._apis = {api.key: api for api in apis}
        memory = RequestMemory(
            config.pk_request_bytes_max, lambda: broker.purgatory.touch(RequestMemory)
        )
        self._limits = Limits(
            memory,
            frame_bytes_max=config.socket_request_max_bytes,
            elements_max=config.pk_request_elements_max,
            parked_max=config.pk_connection_max_parked,
            slice_s=config.pk_loop_slice_us / 1e6,
        )
        self._listeners = {listener.name: listener for listener in config.listeners}
        self._connections: set[Connection] = set()
        self._by_host: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._quotas = ConnectionQuotas(broker)
        self._closing_later = 0
        """The number of connections that wait to be closed because their address has too many."""
        self._handshaking = trio.Lock()
        """Held by the connection that computes a step of its TLS handshake."""
        self._idle_s = config.connections_max_idle_ms / 1000
        self._descriptors = descriptors_for_connections()
        self._refused = 0
        self._refusal_logged = float("-inf")
        self._ids = 0
        self._accepting: list[trio.CancelScope] = []
        """The cancel scope of each call of `serve`."""
        self._draining = False
        self._empty = trio.Event()

    @property
    def connections(self) -> int:
        """The number of connected clients."""
        return len(self._connections)

    async def serve(
        self,
        listener_name: str,
        listeners: list[trio.SocketListener],
        apis: Iterable[Api] | None = None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept connections on `listeners` until `drain`. Returns when the last connection has
        ended. `apis` are the APIs of these listeners, if they differ from the server's.

        If the process runs out of descriptors, trio waits and accepts again.
        """
        served = self._apis if apis is None else {api.key: api for api in apis}
        security = self._security_of(listener_name)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._close_idle)
            async with trio.open_nursery() as connections:
                with trio.CancelScope() as accepting:
                    self._accepting.append(accepting)
                    if self._draining:
                        accepting.cancel()

                    async def handle(stream: trio.SocketStream) -> None:
                        try:
                            if self._quotas.unknown_hosts:
                                connections.start_soon(self._quotas.look_up)
                            await self._serve_stream(stream, listener_name, served, security)
                        except Exception:
                            # An internal error affects one client: it must not end the connections
                            # of the others.
                            logger.exception("a connection could not be served")

                    task_status.started()
                    paced = [PacedListener(one, self._quotas, listener_name) for one in listeners]
                    await trio.serve_listeners(handle, paced, handler_nursery=connections)
            nursery.cancel_scope.cancel()

    async def drain(self, grace_s: float) -> None:
        """Stop accepting and reading; wait up to `grace_s` seconds until the outstanding answers
        have been sent. May be called again."""
        self._draining = True
        for accepting in self._accepting:
            accepting.cancel()
        for connection in list(self._connections):
            connection.stop_reading()
        with trio.move_on_after(grace_s):
            while self._connections:
                self._empty = trio.Event()
                await self._empty.wait()

    async def _serve_stream(
        self,
        stream: trio.SocketStream,
        listener_name: str,
        apis: dict[int, Api],
        security: ListenerSecurity | None,
    ) -> None:
        try:
            host, port = stream.socket.getpeername()[:2]
        except OSError:
            await trio.aclose_forcefully(stream)
            return
        if self._draining or not self._admits(host, listener_name):
            await trio.aclose_forcefully(stream)
            return
        if wait_s := self._quotas.refusal_delay_s(host):
            self._refuse(host, "more connections a second than its quota allows")
            await self._close_later(stream, wait_s)
            return
        sock = socket.socket(fileno=stream.socket.detach())  # trio has set TCP_NODELAY
        self._ids += 1
        context = Context(
            self._broker,
            client_host=f"/{host}",
            listener=listener_name,
            connection_id=self._ids,
        )
        transport: Transport = SocketTransport(sock)
        if security is not None and security.uses_tls:
            transport = TlsTransport(sock, security.tls_context, self._handshaking)
        connection = Connection(
            transport,
            apis,
            self._limits,
            context,
            f"{host}:{port}",
            security,
        )
        self._connections.add(connection)
        self._by_host[host] += 1
        self._by_listener[listener_name] += 1
        counted = self._broker.metrics.listener(listener_name)
        counted.opened += 1
        if self._broker.faults is not None:
            self._broker.faults.connected(context.connection_id, connection.close_at_once)
        try:
            await connection.serve()
        except Exception:
            logger.exception("connection of %s failed", connection.peer)
        finally:
            self._connections.discard(connection)
            self._by_listener[listener_name] -= 1
            counted.closed += 1
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]
            if not self._connections:
                self._empty.set()
            for callback in self._broker.disconnected:
                callback(context.connection_id)

    def _security_of(self, listener_name: str) -> ListenerSecurity | None:
        """Return how the peers of a listener authenticate; None if they need not."""
        listener = self._listeners.get(listener_name)
        if listener is None or listener.security_protocol == "PLAINTEXT":
            return None
        return ListenerSecurity(self._broker, listener)

    async def _close_later(self, stream: trio.SocketStream, wait_s: float) -> None:
        """Close a connection after a delay, unless too many are waiting already."""
        if len(self._connections) + self._closing_later < self._descriptors:
            self._closing_later += 1
            try:
                await trio.sleep(wait_s)
            finally:
                self._closing_later -= 1
        await trio.aclose_forcefully(stream)

    def _admits(self, host: str, listener: str) -> bool:
        """Return whether another connection from `host` is allowed. The limits may change at
        runtime."""
        config, count = self._broker.config, len(self._connections)
        if count >= config.max_connections:
            return self._refuse(host, f"max.connections is {config.max_connections}")
        if count >= self._descriptors:
            return self._refuse(
                host, f"all {count} file descriptors for connections are in use (ulimit -n)"
            )
        limit = self._quotas.connections_max(listener)
        if self._by_listener[listener] >= limit:
            return self._refuse(host, f"max.connections of listener {listener} is {limit}")
        limit = config.max_connections_per_ip_overrides.get(host, config.max_connections_per_ip)
        if self._by_host[host] >= limit:
            return self._refuse(
                host, f"its address has {limit} connections, the limit of max.connections.per.ip"
            )
        return True

    def _refuse(self, host: str, why: str) -> bool:
        self._refused += 1
        if trio.current_time() - self._refusal_logged >= REFUSALS_LOGGED_S:
            logger.warning(
                "connection from %s refused: %s (%d refused since the last such line)",
                host,
                why,
                self._refused,
            )
            self._refused, self._refusal_logged = 0, trio.current_time()
        return False

    async def _close_idle(self) -> None:
        """Close connections that have been silent for `connections.max.idle.ms` and have no
        outstanding answers."""
        idle_s = self._idle_s
        if idle_s < 0:
            return
        while True:
            await trio.sleep(min(IDLE_CHECK_S, max(idle_s / 2, 0.05)))
            oldest = trio.current_time() - idle_s
            for connection in list(self._connections):
                connection.close_if_idle(oldest)
