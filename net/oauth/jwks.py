"""The keys of an OAuth provider (a JWKS), fetched from its URL or file and cached.

A thread fetches them when a client logs in and they are missing or older than
`sasl.oauthbearer.jwks.endpoint.refresh.ms`, or when a token names an unknown key, since providers
rotate keys. Tokens with invented key names cause at most one fetch per `UNKNOWN_KEY_S`. While the
provider is unreachable, the known keys stay valid.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, Final, cast

import trio

from pk.core.auth.oauthbearer import KeysNeeded
from pk.net.oauth.http import HttpFailed

logger = logging.getLogger("pk.server")

UNKNOWN_KEY_S: Final = 1.0
KEYS_MAX: Final = 1000


class Jwks:
    """The keys of one provider."""

    def __init__(
        self,
        read: Callable[[], bytes],
        parse: Callable[[dict[str, Any]], object],
        *,
        refresh_s: float,
        backoff_s: float,
        backoff_max_s: float,
    ) -> None:
        """Initialize the cache. `read` returns the provider's answer, or raises HttpFailed; it is
        called in a thread. `parse` makes a key from its JSON, and raises ValueError if the key
        cannot be used."""
        self._get = read
        self._parse = parse
        self._refresh_s = refresh_s
        self._backoff_s = backoff_s
        self._backoff_max_s = backoff_max_s
        self._keys: list[tuple[str | None, Any]] = []
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._failures = 0
        self._lock = trio.Lock()

    def keys(self, key_id: str | None) -> list[Any]:
        """Return the keys with this id (None: all); empty if the provider has no such key. Raises
        KeysNeeded."""
        now = trio.current_time()
        if now - self._fetched_at > self._refresh_s and self._may_try(now):
            raise KeysNeeded
        if key_id is None:
            return [key for _, key in self._keys]
        found = [key for name, key in self._keys if name == key_id]
        if not found and now - self._tried_at > UNKNOWN_KEY_S and self._may_try(now):
            raise KeysNeeded
        return found

    async def fetch(self) -> None:
        """Fetch the keys, unless another task has just done so. A failure is logged."""
        asked_at = trio.current_time()
        async with self._lock:
            if self._tried_at >= asked_at:
                return
            try:
                found = await trio.to_thread.run_sync(self._read, abandon_on_cancel=True)
            except HttpFailed as e:
                self._failures += 1
                logger.warning("sasl.oauthbearer.jwks.endpoint.url: %s", e)
            else:
                self._keys, self._failures = found, 0
                self._fetched_at = trio.current_time()
            self._tried_at = trio.current_time()

    def _may_try(self, now: float) -> bool:
        """Return whether enough time has passed since the last failure."""
        if not self._failures:
            return True
        wait_s = min(self._backoff_s * 2 ** min(self._failures - 1, 30), self._backoff_max_s)
        return now - self._tried_at >= wait_s

    def _read(self) -> list[tuple[str | None, Any]]:
        data = self._get()
        try:
            listed = json.loads(data)["keys"]
            if not isinstance(listed, list):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise HttpFailed("the answer is not a JWKS") from None
        found: list[tuple[str | None, Any]] = []
        for one in cast(list[Any], listed)[:KEYS_MAX]:
            if not isinstance(one, dict):
                continue
            fields = cast(dict[str, Any], one)
            name = fields.get("kid")
            try:
                found.append((name if isinstance(name, str) else None, self._parse(fields)))
            except ValueError:
                continue  # a key for another purpose, or of an unsupported kind
        return found
