"""The context of a request: the client and its connection. Every handler gets it with the
request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from pk.core.auth.principal import ANONYMOUS, KafkaPrincipal
from pk.core.broker.broker import Broker
from pk.core.broker.controller.controller_client import Forwarded
from pk.core.broker.replication.fetch_sessions import RepeatedFetch
from pk.core.values import NO_OFFSET


class Context(Struct):
    """The context of one request. A connection has one, from which those of its requests are
    created (see `of_request`)."""

    broker: Broker
    api_key: int = 0
    api_version: int = 0
    correlation_id: int = 0
    client_id: str | None = None
    client_host: str = ""
    """The peer's address without its port, as in Kafka's DescribeGroups: `/127.0.0.1`."""
    listener: str = "PLAINTEXT"
    """The name of the connection's listener, in upper case."""
    principal: KafkaPrincipal = ANONYMOUS
    """The principal that the connection authenticated as."""
    connection_id: int = 0
    repeated: RepeatedFetch | None = None
    """The connection's memory of fetches without a session."""
    own: bool = False
    """Whether the request is this node's own, which may do everything."""
    image_offset: int = NO_OFFSET
    """The offset of the image that contains the controller's decision about this request; -1 until
    there is a decision."""

    def of_request(
        self, api_key: int, api_version: int, correlation_id: int, client_id: str | None
    ) -> Context:
        """Return the context of one request of this connection."""
        return Context(
            self.broker,
            api_key,
            api_version,
            correlation_id,
            client_id,
            self.client_host,
            self.listener,
            self.principal,
            self.connection_id,
            self.repeated,
        )


Dispatch = Callable[[Context, Any], Awaitable[Forwarded]]
"""(context, request) → the response of this process's controller. Errors become responses, except
errors after which the request must be repeated: KafkaError NOT_CONTROLLER, REQUEST_TIMED_OUT."""
