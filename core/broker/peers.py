"""Connections from a node to brokers and controllers, as the layers above the sockets see them.

`net/peers.py` implements them with TCP. A simulation implements them in memory, and loses and
delays their messages; the layers above cannot tell the difference. A channel is ordered: requests
are sent in the order of the calls, and answers come back in that order. An answer that waits long
(a Fetch) delays the answers after it, so a caller that must not wait has its own channel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias


class PeerLost(Exception):
    """The peer was not reached, its connection broke, or no answer came in time.

    If `Peers.connect` raises it, no request was sent. If `Channel.request` raises it, the peer may
    have acted on the request.
    """

    def __init__(self, message: str, *, refused: bool = False, answered: bool = False) -> None:
        super().__init__(message)
        self.answered = answered
        """Whether the peer is alive, but did not speak Kafka, or refused the login."""
        self.refused = refused
        """Whether the peer's machine refused the connection: the process is gone, not only slow."""


Answered: TypeAlias = Callable[[Any, Exception | None], None]
"""(answer, None) or (None, error)."""


class Channel(Protocol):
    """One ordered connection to a peer, which has said what versions it serves."""

    @property
    def usable(self) -> bool:
        """Whether requests can still go out; never again once it was False."""
        ...

    def when_lost(self, tell: Callable[[], None]) -> None:
        """Have `tell` called as soon as the peer is found to have gone, before its
        waiting callers learn it; not if this side ends the channel."""
        ...

    def version_of(self, api_key: int) -> int:
        """The highest version of an API that both sides know. Raises
        KafkaError(UNSUPPORTED_VERSION)."""
        ...

    async def request(self, request: Any, *, timeout_ms: float, version: int | None = None) -> Any:
        """Send `request`, in the highest common version unless one is given, and wait for its
        answer.

        A request without an answer in `timeout_ms` ends the channel, and the requests after it
        fail, too. A cancelled caller only stops waiting. `records` of the answer are views of a
        buffer that belongs only to this answer.

        Raises PeerLost; KafkaError(UNSUPPORTED_VERSION) if there is no common version.
        """
        ...

    def send(self, request: Any, *, timeout_ms: float, then: Answered) -> None:
        """Like `request`, for a caller that has no waiting task: `then` is called with the answer,
        or with what `request` would raise, as soon as it is known, and also when this side closes
        the channel. It must be quick, and raise nothing.

        Raises the errors of `request` if the request cannot be sent.
        """
        ...

    def close(self) -> None:
        """End it; requests under way raise PeerLost. Idempotent, never blocks."""
        ...


class Peers(Protocol):
    """Opens channels to peers."""

    async def connect(self, host: str, port: int, *, timeout_ms: float) -> Channel:
        """A new channel to the peer at that address, versions exchanged. Raises PeerLost."""
        ...
