"""The address of a server of HTTP, as a URL names it. Needs no h11, as a client does that is no
`HttpClient`."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from msgspec import Struct


class Address(Struct, frozen=True):
    """Where a server is, and as whom it is asked."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    user: str | None = None
    password: str | None = None

    @property
    def url(self) -> str:
        """Without the password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


def address(url: str) -> Address:
    """The address that a URL names. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"not a URL of HTTP: {url}")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password is not None else None
    return Address(parts.scheme, parts.hostname, port, parts.path.rstrip("/"), user, password)
