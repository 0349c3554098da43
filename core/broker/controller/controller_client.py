"""Sends requests to the active controller: in this process, at a known address, or at the address
that etcd or ZooKeeper has.

There are two kinds of requests. A broker's own (`request`: registration, heartbeats, ISR changes,
producer ids) are idempotent, because they have epochs. Therefore they are retried, with the current
controller, until one gets a response or the request times out. A client's (`forward`, in an
Envelope, KIP-590) may not be idempotent: if the first try creates a topic, the second one fails.
Therefore `forward` retries only if the request cannot have taken effect (no controller reached, or
NOT_CONTROLLER), and otherwise raises `OutcomeUnknown`, which clients get as REQUEST_TIMED_OUT.

The controller's error NOT_CONTROLLER means that the request has had no effect and will have none,
REQUEST_TIMED_OUT that it may have taken effect.

If the active controller is in this process, no socket is involved: `answer_locally`, which knows
the handlers, is called. There are three channels. A controller responds to the requests on each of
them in order, and a channel with a late response is closed with all its waiting requests. Therefore
heartbeats have a channel of their own, and so do clients' requests.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, Protocol, cast

import trio

from pk.core.auth.principal import KafkaPrincipal
from pk.core.broker.controller.client_identity import address_bytes, principal_bytes
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.peers import Channel, PeerLost, Peers
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.events import Endpoint
from pk.core.values import NO_OFFSET
from pk.core.wire.codec import check_end, decode_in_steps
from pk.core.wire.header import frame_request_in_steps, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from pk.core.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

logger = logging.getLogger("pk.controller")


class Client(Protocol):
    """The client whose request is forwarded: the part of a `Context` used here."""

    api_version: int
    correlation_id: int
    client_id: str | None
    client_host: str
    principal: KafkaPrincipal


class Forwarded(NamedTuple):
    """The controller's response to a forwarded request."""

    response: Any
    image_offset: int = NO_OFFSET
    """The offset of the image that contains the controller's decision; -1 if it decided nothing, or
    its version does not report the offset."""


AnswerLocally = Callable[[Client | None, Any], Awaitable[Forwarded]]
"""(client, request) → the response of this process's controller; the client is None for the node's
own requests. Errors are returned as responses, except those after which the request must be
repeated: KafkaError NOT_CONTROLLER, REQUEST_TIMED_OUT."""

OWN_TRY_MS: Final = 5_000
"""How long one try of a node's own request waits for its response, in ms. A controller whose
machine lost power after receiving the request never responds, and the connection to it would never
break. The request is then sent again, which is idempotent."""

CONNECT_MS: Final = 2_000
"""If a controller does not accept a connection within this time, in ms, the controller is looked up
again."""

PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 0.25
"""The limits of the pause between two tries, in seconds; the pause doubles. A new controller is
usually elected soon, or a process restarts."""

RETRIABLE: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
"""The errors after which the request must be repeated: it had no effect; it may have had one."""

ENVELOPE_BYTES: Final = 4096
"""The maximum number of bytes that an envelope adds to its request: its header, and the client's
principal and address."""

LEADER_CHECK_S: Final = 0.5
"""How often to check for another controller while waiting for a response, in seconds."""


CHECKED_ITEMS_MAX: Final = 1000
"""The number of items of a list that are checked for an error."""


class OutcomeUnknown(KafkaError):
    """The request reached a controller, but no response came: it may have taken effect. Clients get
    it as REQUEST_TIMED_OUT."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)


class Locator(Protocol):
    """Finds the controller."""

    async def find(self) -> tuple[int, Endpoint] | None:
        """Return (node id, endpoint of its controller listener), or None without a controller. It
        may be outdated: then that node responds NOT_CONTROLLER, or is gone. The id is -1 if only
        the address is known."""
        ...


class LocalController(Protocol):
    """The controller of this process."""

    controller_id: int

    @property
    def active(self) -> bool:
        """Whether it is the cluster's active controller."""
        ...


class NodeToController(Protocol):
    """Sends a node's own requests to the active controller."""

    async def request(self, request: Any, *, timeout_ms: float) -> Any:
        """See `ControllerClient.request`."""
        ...


class ForwardingClient(NodeToController, Protocol):
    """Sends requests to the active controller, including those of clients."""

    async def forward(self, client: Client, request: Any, *, timeout_ms: float) -> Forwarded:
        """See `ControllerClient.forward`."""
        ...


class _NoController(Exception):
    """No controller received the request."""


class _Connection:
    """One channel to the controller, opened when it is first needed and whenever the leadership has
    moved."""

    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._channel: Channel | None = None
        self.controller: tuple[int, Endpoint] | None = None
        self._connecting = trio.Lock()

    async def channel(self) -> Channel:
        """Return the channel to the controller found by the locator. Raises _NoController."""
        async with self._connecting:
            wanted = await self._client.find_remote()
            if self._channel is not None and self._channel.usable and wanted == self.controller:
                return self._channel
            self.close()
            _, endpoint = wanted
            try:
                self._channel = await self._client.peers.connect(
                    endpoint.host, endpoint.port, timeout_ms=CONNECT_MS
                )
            except PeerLost as e:
                raise _NoController(f"the controller cannot be reached: {e}") from e
            self.controller = wanted
            return self._channel

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = self.controller = None


class ControllerClient:
    """Sends requests to the active controller. One per process; `close` it at the end."""

    def __init__(
        self,
        locator: Locator,
        peers: Peers,
        *,
        controller: LocalController | None,
        answer_locally: AnswerLocally,
        request_bytes_max: int,
    ) -> None:
        """`locator` finds the controller and `peers` makes the connections to it. While
        `controller`, the one of this process, is active, `answer_locally` is called instead.
        `request_bytes_max` is the controller's limit (`socket.request.max.bytes`)."""
        self.peers = peers
        self._locator = locator
        self._controller = controller
        self._answer_locally = answer_locally
        self._request_bytes_max = request_bytes_max
        self._heartbeats = _Connection(self)
        self._for_node = _Connection(self)
        self._for_clients = _Connection(self)

    async def request(self, request: Any, *, timeout_ms: float) -> Any:
        """Return the active controller's response to an idempotent request of this node.

        After NOT_CONTROLLER the request is sent again. Raises KafkaError: REQUEST_TIMED_OUT if the
        request times out (the outcome is unknown), UNSUPPORTED_VERSION.
        """

        async def send(local: bool) -> Forwarded:
            if local:
                try:
                    return await self._answer_locally(None, request)
                except (
                    OutcomeUnknown
                ) as e:  # another process sends this error as an ordinary response
                    raise KafkaError(e.code, e.message) from e
            is_heartbeat = request.API_KEY == BrokerHeartbeatRequest.API_KEY
            connection = self._heartbeats if is_heartbeat else self._for_node
            return Forwarded(await self._send(connection, request, min(timeout_ms, OWN_TRY_MS)))

        return (await self._request_until_answered(request, send, timeout_ms)).response

    async def forward(self, client: Client, request: Any, *, timeout_ms: float) -> Forwarded:
        """Return the active controller's response to a client's request, sent with the client's
        principal and address, in the client's version.

        Raises OutcomeUnknown if the request was sent and got no response, or REQUEST_TIMED_OUT;
        KafkaError(REQUEST_TIMED_OUT) if no controller was found in time; KafkaError for errors of
        the envelope itself.
        """

        async def send(local: bool) -> Forwarded:
            try:
                if local:
                    forwarded = await self._answer_locally(client, request)
                else:
                    envelope = await _envelope(client, request, self._request_bytes_max)
                    answer = await self._send(self._for_clients, envelope, timeout_ms)
                    forwarded = await _unwrap(answer, client, request)
            except PeerLost as e:
                raise OutcomeUnknown(f"the controller was lost before it answered: {e}") from e
            except KafkaError as e:
                if e.code == ErrorCode.REQUEST_TIMED_OUT:
                    raise OutcomeUnknown(
                        e.message or "the controller did not respond in time"
                    ) from e
                raise
            if has_error(forwarded.response, ErrorCode.REQUEST_TIMED_OUT):
                raise OutcomeUnknown("the controller does not know whether the change was made")
            return forwarded

        return await self._request_until_answered(request, send, timeout_ms)

    def close(self) -> None:
        """Close the connections. Current requests fail."""
        self._heartbeats.close()
        self._for_node.close()
        self._for_clients.close()

    async def find_remote(self) -> tuple[int, Endpoint]:
        """Return the controller, if it is in another process. Raises _NoController."""
        found = await self._locator.find()
        if found is None:
            raise _NoController("there is no active controller")
        own = self._controller
        if own is not None and found[0] == own.controller_id:
            raise _NoController("this node is becoming the controller")
        return found

    async def _request_until_answered(
        self, request: Any, send: Callable[[bool], Awaitable[Forwarded]], timeout_ms: float
    ) -> Forwarded:
        pause_s, reason = PAUSE_S_MIN, "no controller was contacted"
        with trio.move_on_after(timeout_ms / 1000):
            while True:
                controller = self._controller
                try:
                    forwarded = await send(controller is not None and controller.active)
                    if not has_error(forwarded.response, *RETRIABLE):
                        return forwarded
                    reason = "there is no active controller"
                except (_NoController, PeerLost) as e:
                    reason = str(e)
                except KafkaError as e:
                    if isinstance(e, OutcomeUnknown) or e.code not in RETRIABLE:
                        raise
                    reason = str(e)
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
        name = MESSAGES[request.API_KEY].name
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"no answer to {name} in {timeout_ms:.0f} ms: {reason}"
        )

    async def _send(self, connection: _Connection, request: Any, timeout_ms: float) -> Any:
        """Return the response of a controller in another process. Raises _NoController, PeerLost,
        KafkaError."""
        channel = await connection.channel()
        current = connection.controller
        response: Any = None
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                # A paused process keeps its connections and sends nothing, so send the request to
                # the new controller instead.
                while True:
                    await trio.sleep(LEADER_CHECK_S)
                    found = await self._locator.find()
                    if found is not None and found != current:
                        nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            response = await _response_or_error(channel, request, timeout_ms)
            nursery.cancel_scope.cancel()
        if response is None:
            raise PeerLost("another node became the controller")
        if isinstance(response, Exception):
            raise response
        if has_error(response, ErrorCode.NOT_CONTROLLER):
            connection.close()
        return response


async def _response_or_error(channel: Channel, request: Any, timeout_ms: float) -> Any:
    """Return the response, or the exception that was raised, since a nursery would wrap it in a
    group."""
    try:
        return await channel.request(request, timeout_ms=timeout_ms)
    except (PeerLost, KafkaError) as e:
        return e


def has_error(response: Any, *codes: ErrorCode) -> bool:
    """Return whether a response has one of these error codes: for the whole request or, if it has
    no such field, for an item of a list. The codes checked here apply to a whole request, so it is
    enough to find one among the first items."""
    if getattr(response, "error_code", 0) in codes:
        return True
    for name in getattr(response, "FIELDS", ()):
        items = getattr(response, name)
        if isinstance(items, list) and any(
            getattr(item, "error_code", 0) in codes
            for item in cast(list[Any], items)[:CHECKED_ITEMS_MAX]
        ):
            return True
    return False


async def _envelope(client: Client, request: Any, request_bytes_max: int) -> EnvelopeRequest:
    """Build an envelope. Raises KafkaError(INVALID_REQUEST) if the controller would refuse its
    size: the controller has the same limit for requests as this node, and an envelope is larger
    than its request."""
    frame = await frame_request_in_steps(
        request, client.api_version, client.correlation_id, client.client_id, let_others_run
    )
    limit = request_bytes_max - ENVELOPE_BYTES
    if len(frame) > limit:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            (
                f"a request of {len(frame)} bytes cannot be forwarded to the controller (at most "
                f"{limit} bytes)"
            ),
        )
    return EnvelopeRequest(
        request_data=frame[4:],
        request_principal=principal_bytes(client.principal),
        client_host_address=address_bytes(client.client_host),
    )


async def _unwrap(answer: EnvelopeResponse, client: Client, request: Any) -> Forwarded:
    """Return the inner response, or the envelope itself for NOT_CONTROLLER. Raises KafkaError."""
    if answer.error_code == ErrorCode.NOT_CONTROLLER:
        return Forwarded(answer)
    if answer.error_code or answer.response_data is None:
        raise KafkaError(
            answer.error_code or ErrorCode.UNKNOWN_SERVER_ERROR,
            "the controller refused the forwarded request",
        )
    data, key, version = answer.response_data, request.API_KEY, client.api_version
    _, position = parse_response_header(data, key, version)
    message = MESSAGES[key].response
    response, end = await decode_in_steps(message, data, version, position, let_others_run)
    check_end(message, data, version, end)
    return Forwarded(response, answer.image_offset)
