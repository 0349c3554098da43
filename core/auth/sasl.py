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
    """An exchange failed. The text is for the log: the peer learns only that it failed."""


class AuthenticationFailed(SaslError):
    """An exchange failed, and the peer may learn the text. It is the same whether the user or the
    password is wrong."""

    def __init__(self, said: str, why: str | None = None) -> None:
        """`said` is for the peer; `why`, for the log, has more detail."""
        super().__init__(said)
        self.why = why or said


class ServerExchange(Protocol):
    """The server's side of one mechanism."""

    @property
    def user(self) -> str | None:
        """The authenticated user, once the exchange is complete."""
        ...

    @property
    def expires_ms(self) -> int | None:
        """The expiry of the user's credential, in ms since 1970; None if it does not expire."""
        ...

    @property
    def by_token(self) -> bool:
        """Whether the user was authenticated by a delegation token."""
        ...

    def step(self, data: bytes) -> bytes:
        """Answer the client's message. Raises SaslError, and KeysNeeded (`oauthbearer`)."""
        ...


class ClientExchange(Protocol):
    """The client's side of one mechanism."""

    @property
    def complete(self) -> bool:
        """Whether the client has nothing more to send, and the server has proved its identity where
        required."""
        ...

    def step(self, data: bytes) -> bytes:
        """Answer the server's message; the first call answers b"". Raises SaslError."""
        ...
