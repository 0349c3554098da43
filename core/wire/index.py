"""The messages of every API in the table of core/api_keys.py.

Message modules are imported when a request or response class is first used, because importing all
of them would take longer than a command line may take to start.
"""

from importlib import import_module
from typing import Any, Final

from pk.core.api_keys import API_KEYS, ApiKey
from pk.core.wire.schema import Request, Response


class ApiMessages:
    """The messages of one API, and the properties in its row of the table."""

    __slots__ = ("_request", "_response", "flexible", "key", "name", "row", "versions")

    def __init__(self, row: ApiKey) -> None:
        self.row = row
        self.key = row.key
        self.name = row.name
        self.versions = row.versions
        self.flexible = row.flexible
        self._request: type[Request[Any]] | None = None
        self._response: type[Response] | None = None

    def __repr__(self) -> str:
        return f"ApiMessages({self.key}, {self.name!r}, versions={self.versions})"

    @property
    def request(self) -> type[Request[Any]]:
        """The class of the request."""
        if self._request is None:
            self._load()
            assert self._request is not None
        return self._request

    @property
    def response(self) -> type[Response]:
        """The class of the response."""
        if self._response is None:
            self._load()
            assert self._response is not None
        return self._response

    def is_flexible(self, version: int) -> bool:
        """Return whether `version` has compact strings, tagged fields and the corresponding
        headers."""
        return self.flexible is not None and version >= self.flexible

    def _load(self) -> None:
        module = import_module(f"pk.core.wire.messages.{self.row.module}")
        self._request = getattr(module, f"{self.name}Request")
        self._response = getattr(module, f"{self.name}Response")


MESSAGES: Final[dict[int, ApiMessages]] = {key: ApiMessages(row) for key, row in API_KEYS.items()}
"""API key → its messages, sorted by key."""
