"""SASL PLAIN (RFC 4616): user and password in one unencrypted message."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest

from pk.core.auth.sasl import AuthenticationFailed, SaslError

INVALID = "Authentication failed: Invalid username or password"


class PlainServer:
    """The server's side of an exchange, with the passwords of all users."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user: str | None = None
        self.expires_ms: int | None = None
        self.by_token = False

    def step(self, data: bytes) -> bytes:
        """Check the client's only message: `[authorization id] NUL user NUL password`. Raises
        SaslError."""
        try:
            tokens = data.decode().split("\0")
        except UnicodeDecodeError as e:
            raise SaslError("Invalid SASL/PLAIN response: not UTF-8") from e
        if len(tokens) != 3:
            raise SaslError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
        authorization_id, user, password = tokens
        if not user:
            raise SaslError("Authentication failed: username not specified")
        if not password:
            raise SaslError("Authentication failed: password not specified")
        expected = self._passwords.get(user)
        # Digests all have the same length, and an unknown user takes as long as a known one.
        same = compare_digest(
            sha256(password.encode()).digest(), sha256((expected or "").encode()).digest()
        )
        if not same or expected is None:
            raise AuthenticationFailed(INVALID)
        if authorization_id and authorization_id != user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.user = user
        return b""


class PlainClient:
    """The client's side of an exchange."""

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password
        self.complete = False

    def step(self, data: bytes) -> bytes:
        """Return the only message. Raises SaslError if the server asks for more."""
        if self.complete:
            if data:
                raise SaslError("the server answered PLAIN with a challenge")
            return b""
        self.complete = True
        return f"\0{self._user}\0{self._password}".encode()
