"""The common interface of SASL mechanisms: an exchange of messages that ends with a user's name, or
fails."""

from __future__ import annotations

from typing import Final, Protocol

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"


class SaslError(Exception):
    """The exchange has failed. The text is for the log: the peer learns only that the exchange
    failed."""


class AuthenticationFailed(SaslError):
    """The exchange has failed, and the peer may see the text. It does not reveal whether the user
    or the password is wrong."""

    def __init__(self, message: str, reason: str | None = None) -> None:
        """Create the error. `message` is for the peer; `reason` is for the log, and has more
        detail."""
        super().__init__(message)
        self.reason = reason or message


class ServerExchange(Protocol):
    """The server's side of an exchange."""

    @property
    def user(self) -> str | None:
        """The authenticated user, once the exchange is complete."""
        ...

    @property
    def expires_ms(self) -> int | None:
        """When the user's credential expires, in ms since 1970, or None if it does not expire."""
        ...

    @property
    def by_token(self) -> bool:
        """Whether the user was authenticated by a delegation token."""
        ...

    def step(self, data: bytes) -> bytes:
        """Answer the client's message. Raises SaslError, and KeysNeeded (`oauthbearer`)."""
        ...


class ClientExchange(Protocol):
    """The client's side of an exchange."""

    @property
    def complete(self) -> bool:
        """Whether the client has nothing more to send, and the server has proved its identity if
        the mechanism requires that."""
        ...

    def step(self, data: bytes) -> bytes:
        """Answer the server's message. The first call passes b"". Raises SaslError."""
        ...
