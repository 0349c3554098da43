"""SASL OAUTHBEARER (RFC 7628, KIP-255): the client presents a token signed by a third party.

The client's only message contains the token. A server that refuses it does not fail at once: it
responds with a JSON error, the client acknowledges that with one byte, and then the login fails.
This file does not know the format of tokens: `validate` returns a token's principal, or raises the
reason to refuse it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pk.core.auth.sasl import AuthenticationFailed, SaslError

ACKNOWLEDGED: Final = b"\x01"
"""A client's acknowledgement of a refusal."""
TOKEN_CHARS_MAX: Final = 256 << 10
"""The maximum length of a token that is parsed."""
INVALID_TOKEN: Final = '{"status":"invalid_token"}'

_SASL_NAME: Final = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
_VALUE: Final = r"[\x21-\x7E \t\r\n]+"
_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<name>{_SASL_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+={_VALUE}\x01)*)\x01"
)
_AUTH: Final = re.compile(r"(?i:bearer) +([-_.~+/A-Za-z0-9]+=*)")
_TOKEN: Final = re.compile(r"[-_.~+/A-Za-z0-9]+=*")
_EXTENSION: Final = re.compile(rf"[A-Za-z]+={_VALUE}")


class TokenRefused(Exception):
    """The token is refused. The text is for the log, and does not quote the token."""


class KeysNeeded(Exception):
    """The provider's keys must be fetched again before the token can be checked. Then the same step
    may be repeated."""


class ValidToken(NamedTuple):
    """The claims of a valid token."""

    name: str
    expires_ms: int
    """When the token expires, in ms since 1970."""


class OAuthBearerServer:
    """The server's side of an exchange."""

    def __init__(self, validate: Callable[[str], ValidToken]) -> None:
        """Begin an exchange. `validate` raises TokenRefused and KeysNeeded."""
        self._validate = validate
        self._refusal: str | None = None
        self.user: str | None = None
        self.expires_ms: int | None = None
        self.by_token = False

    def step(self, data: bytes) -> bytes:
        """Answer the client's token, or its acknowledgement of a refusal. Raises SaslError,
        KeysNeeded."""
        if self._refusal is not None:
            if data != ACKNOWLEDGED:
                raise SaslError(f"{self._refusal}; and the client did not acknowledge that")
            raise AuthenticationFailed(INVALID_TOKEN, self._refusal)
        name, token = _parse(data)
        try:
            found = self._validate(token)
        except TokenRefused as e:
            self._refusal = f"the token is refused: {e}"
            return INVALID_TOKEN.encode()
        if name and name != found.name:
            raise AuthenticationFailed(
                f"Authentication failed: Client requested an authorization id ({name}) that is"
                f" different from the token's principal name ({found.name})"
            )
        self.user, self.expires_ms = found.name, found.expires_ms
        return b""


class OAuthBearerClient:
    """The client's side of an exchange."""

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        """Begin an exchange. Raises SaslError if the token or the extensions contain characters
        that cannot be sent."""
        pairs = [f"{key}={value}" for key, value in (extensions or {}).items()]
        for pair in pairs:
            if not _EXTENSION.fullmatch(pair) or pair.startswith("auth="):
                raise SaslError(f"the SASL extension {pair.partition('=')[0]!r} cannot be sent")
        if not _TOKEN.fullmatch(token):
            raise SaslError("not a token: it has other characters than base64's and dots")
        self._first = "\x01".join(["n,,", f"auth=Bearer {token}", *pairs, "", ""]).encode()
        self._begun = False
        self.complete = False

    def step(self, data: bytes) -> bytes:
        """Return the message with the token, and then an empty message or the acknowledgement of a
        refusal."""
        if not self._begun:
            self._begun = True
            return self._first
        if data:
            return ACKNOWLEDGED
        self.complete = True
        return b""


def _parse(data: bytes) -> tuple[str, str]:
    """Parse a message. Returns the authorization id, which is often empty, and the token."""
    try:
        match = _CLIENT_FIRST.fullmatch(data.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise SaslError("Invalid OAUTHBEARER client first message")
    pairs = [pair.partition("=") for pair in match["pairs"].split("\x01") if pair]
    auth = [value for key, _, value in pairs if key == "auth"]
    if len(auth) != 1:
        raise SaslError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    shown = _AUTH.fullmatch(auth[0])
    if shown is None:
        raise SaslError("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    return (match["name"] or "").replace("=2C", ",").replace("=3D", "="), shown[1]
