"""The address of an HTTP server, parsed from a URL. This module does not need h11, unlike
`HttpClient`."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from msgspec import Struct

from pk.core.structs import repr_without


class Address(Struct, frozen=True):
    """The address of a server, and the credentials for it."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return repr_without(self, "password")

    @property
    def url(self) -> str:
        """The URL without the password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


def address(url: str) -> Address:
    """Parse the address in a URL. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"not an HTTP URL: {url}")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password is not None else None
    return Address(parts.scheme, parts.hostname, port, parts.path.rstrip("/"), user, password)
