"""Gets a client's tokens: from the provider's token endpoint with the client's own credentials (RFC
6749, client credentials), from a file, or from a function of the program. All connections with the
same settings share a token, which is replaced after most of its lifetime."""

from __future__ import annotations

import binascii
import json
import random
import time
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, cast
from urllib.parse import quote_plus, urlencode

import trio
from msgspec import Struct

from pk.core.auth.sasl import SaslError
from pk.core.auth.unsecured_tokens import unsecured_token
from pk.core.structs import repr_without
from pk.net.oauth.http import HttpFailed, Timeouts, read_url
from pk.net.oauth.token_provider import AccessToken, ProviderFailed, TokenProvider, ask
from pk.net.tls.contexts import TlsError, client_context
from pk.net.tls.settings import TlsSettings


class Refresh(Struct, frozen=True):
    """When to replace a token before it expires: the keys `sasl.login.refresh.*`."""

    window_factor: float = 0.8
    """The share of a token's lifetime after which it is replaced."""
    window_jitter: float = 0.05
    """A random share up to this is added to `window_factor`, so that clients do not refresh all at
    once."""
    min_period_s: int = 60
    """The minimum time before a token is replaced."""
    buffer_s: int = 300
    """The minimum remaining lifetime when a token is replaced."""

    def used_s(self, life_s: float, chance: float) -> float:
        """Return how long to use a token with a lifetime of `life_s`. `chance` is from 0 to 1. As
        in Java, the minimum period and the buffer are ignored if the lifetime is shorter than both
        together."""
        used_s = life_s * min(self.window_factor + self.window_jitter * chance, 1.0)
        if life_s < self.min_period_s + self.buffer_s:
            return used_s
        return max(min(used_s, life_s - self.buffer_s), self.min_period_s)


PROVIDER: Final = "sasl.oauthbearer.token.provider"
_TIMEOUTS: Final = Timeouts()
_REFRESH: Final = Refresh()


class TokenSettings(Struct, frozen=True):
    """A client's settings for getting tokens."""

    url: str
    client_id: str | None = None
    client_secret: str | None = None
    scope: str | None = None
    url_encode: bool = False
    """Whether to URL-encode the id and the secret in the header, as RFC 6749 requires but few
    providers expect."""
    timeouts: Timeouts = _TIMEOUTS
    backoff_s: float = 0.1
    backoff_max_s: float = 10.0
    refresh: Refresh = _REFRESH
    extensions: tuple[tuple[str, str], ...] = ()
    unsecured: tuple[tuple[str, str], ...] = ()
    """The options of a login that creates its own, unsigned tokens."""
    provider: TokenProvider | str | None = None
    """A function, or a command, that returns tokens."""
    tls: TlsSettings = TlsSettings()

    def __repr__(self) -> str:
        return repr_without(self, "client_secret", "unsecured", "tls")


class TokenSource:
    """Caches the current token for certain settings."""

    def __init__(self, settings: TokenSettings, now_s: Callable[[], float] = time.time) -> None:
        """Initialize the cache. `now_s` is the time of day."""
        self._settings = settings
        self._now_s = now_s
        self._token: AccessToken | None = None
        self._replaced_at = 0.0
        self._ends_at = 0.0
        self._lock = trio.Lock()

    async def get(self) -> AccessToken:
        """Return a token that stays valid for a while. Raises SaslError, without secrets."""
        if self._token is not None and self._now_s() < self._replaced_at:
            return self._token
        async with self._lock:
            if self._token is not None and self._now_s() < self._replaced_at:
                return self._token
            try:
                token, life_s = await self._fetch()
            except HttpFailed as e:
                if self._token is not None and self._now_s() < self._ends_at:
                    return self._token
                key = "sasl.oauthbearer.token.endpoint.url"
                if self._settings.provider is not None:
                    key = PROVIDER
                raise SaslError(f"no token ({key}): {e}") from None
            now = self._now_s()
            self._token = token
            used_s = self._settings.refresh.used_s(life_s, random.random())
            self._replaced_at, self._ends_at = now + used_s, now + life_s
            return token

    async def _fetch(self) -> tuple[AccessToken, float]:
        """Retry until there is an answer, for at most `sasl.login.retry.backoff.max.ms`."""
        settings = self._settings
        wait_s, until = settings.backoff_s, trio.current_time() + settings.backoff_max_s
        while True:
            try:
                return await trio.to_thread.run_sync(self._ask, abandon_on_cancel=True)
            except HttpFailed as e:
                if e.lasting or trio.current_time() + wait_s > until:
                    raise
            await trio.sleep(wait_s)
            wait_s *= 2

    def _ask(self) -> tuple[AccessToken, float]:
        settings = self._settings
        if settings.provider is not None:
            try:
                found = ask(settings.provider)
            except ProviderFailed as e:
                raise HttpFailed(str(e)) from e
            _, life_s = _with_life(found.token, found.expires_in_s, self._now_s())
            return found, life_s
        if settings.unsecured:
            token = unsecured_token(dict(settings.unsecured), self._now_s())
            return _with_life(token, None, self._now_s())
        if settings.url.startswith("file:"):
            data = read_url(settings.url, settings.timeouts, None)
            return _with_life(data.decode(errors="replace").strip(), None, self._now_s())
        try:
            tls = client_context(settings.tls) if settings.url.startswith("https:") else None
        except TlsError as e:
            raise HttpFailed(str(e), lasting=True) from None
        form = {"grant_type": "client_credentials"}
        if settings.scope:
            form["scope"] = settings.scope
        data = read_url(
            settings.url,
            settings.timeouts,
            tls,
            body=urlencode(form).encode(),
            headers={
                "Authorization": f"Basic {self._credentials()}",
                "Content-Type": "application/x-www-form-urlencoded",
                "Accept": "application/json",
            },
        )
        try:
            answer = cast("dict[str, Any]", json.loads(data))
            token, life = answer["access_token"], answer.get("expires_in")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise HttpFailed("the token endpoint's answer has no access_token") from None
        if not isinstance(token, str) or not token.strip():
            raise HttpFailed("the token endpoint's access_token is not a string")
        return _with_life(token.strip(), life, self._now_s())

    def _credentials(self) -> str:
        client_id, secret = self._settings.client_id or "", self._settings.client_secret or ""
        if self._settings.url_encode:
            client_id, secret = quote_plus(client_id), quote_plus(secret)
        return b64encode(f"{client_id}:{secret}".encode()).decode()


@lru_cache(maxsize=32)
def token_source(settings: TokenSettings) -> TokenSource:
    """Return the source for these settings, which all clients of the process share."""
    return TokenSource(settings)


def _with_life(token: str, expires_in: object, now_s: float) -> tuple[AccessToken, float]:
    """Return the token with its lifetime in seconds, from the token itself or from the provider.
    Without a lifetime, the token is used once."""
    expires = _claim(token, "exp")
    if isinstance(expires, int | float):
        return AccessToken(token), max(float(expires) - now_s, 0.0)
    if isinstance(expires_in, int | float):
        return AccessToken(token), max(float(expires_in), 0.0)
    return AccessToken(token), 0.0


def _claim(token: str, name: str) -> object:
    """Return a claim of a JWT. Nothing is verified: the broker does that."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None
    return cast("dict[str, Any]", payload).get(name) if isinstance(payload, dict) else None
