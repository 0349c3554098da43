"""Channels to other nodes over TCP, which implement the interface of `core/broker/peers.py` with
the client library's connection."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Any, cast

import trio

from pk.core.auth.sasl import GSSAPI, OAUTHBEARER
from pk.core.auth.sasl_config import SERVICE_NAME
from pk.core.auth.unsecured_tokens import UNSECURED
from pk.core.broker.peers import Answered, PeerLost
from pk.core.config import BrokerConfig, ConfigError
from pk.core.config.listener_keys import listener_key, listener_value
from pk.core.errors import KafkaError, ProtocolError
from pk.net.client.common_config import ClientConfig, check_login
from pk.net.client.connection import Connection, Pending, connect
from pk.net.client.errors import ClientError, ConnectFailed
from pk.net.client.errors import ConfigError as ClientConfigError
from pk.net.client.node import Node
from pk.net.oauth.keys import CLIENT_TOKEN_KEYS
from pk.net.tls.settings import CLIENT_KEYS

logger = logging.getLogger("pk.node")

UNKNOWN_NODE = -1
WARNINGS_LOGGED_S = 30.0

Security = dict[str, Any]
"""Keyword arguments of ClientConfig."""


class NetChannel:
    """A `Channel` on one TCP connection."""

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

    def send(self, request: Any, *, timeout_ms: float, then: Answered) -> None:
        """See `Channel`."""

        def finished(pending: Pending) -> None:
            error = pending.error
            if isinstance(error, ClientError | ProtocolError):
                error = PeerLost(str(error))
            then(pending.response, error)

        connection = self._connection
        version = connection.version_of(request.API_KEY)
        try:
            pending = connection.submit(request, version, timeout_ms=timeout_ms)
        except (ClientError, ProtocolError) as e:
            raise PeerLost(str(e)) from e
        pending.on_finish(finished)

    def close(self) -> None:
        """See `Channel`."""
        self._connection.close()


class NetPeers:
    """`Peers` over TCP. The tasks of the connections run in the nursery, and end with it."""

    def __init__(
        self, nursery: trio.Nursery, *, client_id: str, security: Callable[[], Security] = dict
    ) -> None:
        """Initialize the peers. `client_id` names this node in the peer's log. `security` returns
        how to authenticate, and is called for each connection."""
        self._nursery = nursery
        self._client_id = client_id
        self._security = security
        self._warned_at = float("-inf")

    def _config(self) -> ClientConfig:
        # A channel stays open as long as its owner wants it, even if idle.
        config = ClientConfig(
            client_id=self._client_id, connections_max_idle_ms=-1, **self._security()
        )
        if config.uses_sasl:
            check_login(config)
        return config

    async def connect(self, host: str, port: int, *, timeout_ms: float) -> NetChannel:
        """See `Peers`."""
        peer = Node(UNKNOWN_NODE, host, port)
        try:
            with trio.fail_after(timeout_ms / 1000):
                connection = await connect(peer, self._config(), self._nursery)
        except trio.TooSlowError:
            raise PeerLost(f"{peer.address}: no answer within {timeout_ms:.0f} ms") from None
        except ConnectFailed as e:
            raise PeerLost(str(e), refused=_refused(e.__cause__), answered=e.reached) from e
        except KafkaError as e:
            self._warn(f"cannot log in at {peer.address}: {e.message}")
            raise PeerLost(f"{peer.address}: {e}", answered=True) from e
        except (ConfigError, ClientConfigError) as e:
            self._warn(str(e))
            raise PeerLost(f"{peer.address}: {e}") from e
        return NetChannel(connection)

    def _warn(self, why: str) -> None:
        """Log why this node cannot authenticate, but not often, since it retries all the time."""
        if trio.current_time() - self._warned_at >= WARNINGS_LOGGED_S:
            self._warned_at = trio.current_time()
            logger.warning("%s", why)


def security_of(config: BrokerConfig, listener: str, protocol: str, mechanism: str) -> Security:
    """Return how this node connects to peers that listen at `listener` with `protocol`, from the
    keys of that listener, as arguments of ClientConfig. Raises ConfigError."""
    found: Security = {"security_protocol": protocol}
    if protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        found["sasl_mechanism"] = mechanism
        found["sasl_jaas_config"] = config.explicit(
            listener_key(listener, "sasl.jaas.config", mechanism)
        )
        if mechanism == OAUTHBEARER:
            found[UNSECURED.replace(".", "_")] = config.pk_sasl_oauthbearer_unsecured
            for key in CLIENT_TOKEN_KEYS:
                value = listener_value(config, listener, key, mechanism)
                if value is not None:
                    found[key.replace(".", "_")] = value
        if mechanism == GSSAPI:
            service = listener_value(config, listener, SERVICE_NAME, mechanism)
            found["sasl_kerberos_service_name"] = service
    if protocol in ("SSL", "SASL_SSL"):
        for key in CLIENT_KEYS:
            found[key.replace(".", "_")] = listener_value(config, listener, key)
    return found


def _refused(error: BaseException | None) -> bool:
    """Return whether every address that was tried has refused the connection."""
    if isinstance(error, BaseExceptionGroup):
        group = cast(BaseExceptionGroup[BaseException], error)
        return all(_refused(one) for one in group.exceptions)
    if isinstance(error, OSError):
        return error.errno == errno.ECONNREFUSED or _refused(error.__cause__)
    return False
