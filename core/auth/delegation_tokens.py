"""Delegation tokens (KIP-48): a user has the cluster create an additional login for it, which
expires.

A token has an id. Its password is the HMAC of the id with the brokers' shared secret
(`delegation.token.secret.key`). A client that presents both by SCRAM (`tokenauth=true`) is
authenticated as the token's owner. The HMAC is not stored in any log or file: every broker computes
it.
"""

from __future__ import annotations

import hmac as hmac_of_hash
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Final

from msgspec import Struct

from pk.core.auth.principal import KafkaPrincipal
from pk.core.auth.scram import ITERATIONS_MIN, Mechanism, ScramCredential, TokenLogin


class DelegationToken(Struct, frozen=True):
    """A token in the metadata. Times are in ms since 1970."""

    token_id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    """The principal that created the token: the owner, or a principal that may create tokens for
    the owner (KIP-373)."""
    renewers: tuple[KafkaPrincipal, ...]
    """The principals that may renew and expire the token, in addition to its owner."""
    issue_ms: int
    expiry_ms: int
    """When the token expires unless it is renewed."""
    max_ms: int
    """When the token expires even if it is renewed."""

    def is_expired(self, now_ms: int) -> bool:
        """Whether the token has expired."""
        return self.expiry_ms < now_ms or self.max_ms < now_ms

    def belongs_to(self, principal: KafkaPrincipal) -> bool:
        """Whether `principal` is the token's owner or one of its renewers."""
        return principal == self.owner or principal in self.renewers


Tokens = Mapping[str, DelegationToken]
"""The tokens by id."""


class TokenSecret:
    """The brokers' shared secret, with a cache of tokens' HMACs."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._known: dict[str, bytes] = {}
        self._by_hmac: dict[bytes, str] = {}

    def hmac(self, token_id: str) -> bytes:
        """Return the HMAC of a token."""
        return hmac_of_hash.digest(self._secret, token_id.encode(), "sha512")

    def find(self, tokens: Tokens, hmac: bytes) -> DelegationToken | None:
        """Return the token with this HMAC, or None."""
        token_id = self._by_hmac.get(hmac)
        if token_id is None or token_id not in tokens:
            self._learn(tokens)
            token_id = self._by_hmac.get(hmac)
        return None if token_id is None else tokens.get(token_id)

    def login(self, token: DelegationToken, mechanism: Mechanism) -> TokenLogin:
        """Return the SCRAM login for a token. The first call for a token is slow on purpose."""
        password = b64encode(self.hmac(token.token_id)).decode()
        credential = _credential(mechanism, token.token_id, password)
        return TokenLogin(token.owner.name, token.expiry_ms, credential)

    def _learn(self, tokens: Tokens) -> None:
        """Compute the HMACs of new tokens, and remove those of removed ones."""
        for token_id in self._known.keys() - tokens.keys():
            del self._by_hmac[self._known.pop(token_id)]
        for token_id in tokens.keys() - self._known.keys():
            self._known[token_id] = found = self.hmac(token_id)
            self._by_hmac[found] = token_id


@lru_cache(maxsize=4)
def token_secret(secret: str) -> TokenSecret:
    """Return the state of a secret, one per process."""
    return TokenSecret(secret)


_LOGINS_KEPT: Final = 1000


@lru_cache(maxsize=_LOGINS_KEPT)
def _credential(mechanism: Mechanism, token_id: str, password: str) -> ScramCredential:
    salt = sha256(f"{mechanism.sasl_name}\0{token_id}\0{password}".encode()).digest()
    return ScramCredential.of_password(mechanism, password, salt, ITERATIONS_MIN)
