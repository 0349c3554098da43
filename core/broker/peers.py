"""Connections from a node to brokers and controllers, as the layers above the sockets see them.

`net/peers.py` implements them with TCP. A simulation implements them in memory, and loses and
delays their messages; the layers above cannot tell the difference. A channel is ordered: requests
are sent in the order of the calls, and responses arrive in that order. A response that waits long
(a Fetch) delays the responses after it, so a caller that must not wait has its own channel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias


class PeerLost(Exception):
    """The peer could not be reached, its connection broke, or no response came in time.

    If `Peers.connect` raises it, no request was sent. If `Channel.request` raises it, the peer may
    have handled the request.
    """

    def __init__(self, message: str, *, refused: bool = False, answered: bool = False) -> None:
        super().__init__(message)
        self.answered = answered
        """Whether the peer responded, but did not speak Kafka, or refused the login."""
        self.refused = refused
        """Whether the peer's system refused the connection: the process is gone, not only slow."""


Answered: TypeAlias = Callable[[Any, Exception | None], None]
"""(response, None) or (None, error)."""


class Channel(Protocol):
    """One ordered connection to a peer, whose supported versions are known."""

    @property
    def usable(self) -> bool:
        """Whether requests can still be sent. Once it is False, it stays False."""
        ...

    def when_lost(self, tell: Callable[[], None]) -> None:
        """Call `tell` as soon as the peer is found to be lost, before the waiting callers raise. It
        is not called if this side closes the channel."""
        ...

    def version_of(self, api_key: int) -> int:
        """Return the highest version of an API that both sides support. Raises
        KafkaError(UNSUPPORTED_VERSION)."""
        ...

    async def request(self, request: Any, *, timeout_ms: float, version: int | None = None) -> Any:
        """Send `request`, in the highest common version unless one is given, and return its
        response.

        A request without a response within `timeout_ms` closes the channel, and the requests after
        it fail, too. A cancelled caller only stops waiting. `records` of the response are views of
        a buffer that belongs only to this response.

        Raises PeerLost; KafkaError(UNSUPPORTED_VERSION) if there is no common version.
        """
        ...

    def send(self, request: Any, *, timeout_ms: float, then: Answered) -> None:
        """Like `request`, for a caller that has no waiting task: `then` is called with the
        response, or with the error that `request` would raise, as soon as it is known, and also
        when this side closes the channel. It must be quick, and must not raise.

        Raises the errors of `request` if the request cannot be sent.
        """
        ...

    def close(self) -> None:
        """Close the channel. Outstanding requests raise PeerLost. Idempotent, never blocks."""
        ...


class Peers(Protocol):
    """Opens channels to peers."""

    async def connect(self, host: str, port: int, *, timeout_ms: float) -> Channel:
        """Return a new channel to the peer at that address, after the exchange of versions. Raises
        PeerLost."""
        ...
