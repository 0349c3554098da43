"""HTTP requests and responses, as handlers and callers see them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from msgspec import Struct, field


class HttpError(Exception):
    """A request that could not be answered, or a response that is not HTTP."""


class TooLarge(HttpError):
    """A body is larger than its limit."""


class Request(Struct, frozen=True):
    """A request that was received completely."""

    method: str
    target: str
    """The path and query, as sent."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The headers by lower-case name."""

    body: bytes = b""

    @property
    def path(self) -> tuple[str, ...]:
        """The decoded parts of the path: a name that contains a slash is one part."""
        raw = self.target.partition("?")[0]
        return tuple(unquote(part) for part in raw.split("/") if part)

    @property
    def query(self) -> list[tuple[str, str]]:
        """The parameters after the question mark, in order. Raises HttpError if there are too
        many."""
        raw = self.target.partition("?")[2]
        try:
            return parse_qsl(raw, keep_blank_values=True, max_num_fields=100)
        except ValueError as e:
            raise HttpError(str(e)) from None

    @property
    def user(self) -> tuple[str, str] | None:
        """The name and password of basic authentication."""
        kind, _, given = self.headers.get("authorization", "").partition(" ")
        if kind.lower() != "basic":
            return None
        try:
            name, colon, password = base64.b64decode(given, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return (name, password) if colon else None


class Response(Struct, frozen=True):
    """A response."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def json(self) -> Any:
        """Return the body decoded from JSON. Raises HttpError."""
        try:
            return json.loads(self.body) if self.body else None
        except ValueError:
            raise HttpError(f"the answer is not JSON: {self.body[:100]!r}") from None


def basic(user: str, password: str) -> str:
    """Return the value of the header `Authorization` for basic authentication."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
