"""An HTTP request to an OAuth provider. It blocks, so call it in a thread.

Redirects are not followed: a server at the provider's address must not redirect credentials to
another one.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from http.client import HTTPConnection

ANSWER_BYTES_MAX: Final = 1 << 20
TIMEOUT_MS: Final = 10_000
"""The default of `sasl.login.connect.timeout.ms` and `sasl.login.read.timeout.ms`."""


class HttpFailed(Exception):
    """A request failed; the text has the reason, without secrets."""

    def __init__(self, why: str, *, lasting: bool = False) -> None:
        super().__init__(why)
        self.lasting = lasting
        """Whether a retry would fail too."""


class Timeouts(NamedTuple):
    """The timeouts of the steps of a request."""

    connect_ms: int = TIMEOUT_MS
    read_ms: int = TIMEOUT_MS


def check_url(url: str, key: str) -> None:
    """Check that `url` can be used. Raises ValueError, which names the key."""
    try:
        parts = urlsplit(url)
        good = parts.scheme == "file" and parts.path or parts.scheme in ("http", "https")
        good = good and (parts.scheme == "file" or parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"{key} must be a URL that begins with https://, http:// or file:///")


def read_url(
    url: str,
    timeouts: Timeouts,
    tls: ssl.SSLContext | None,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return the response to a GET of `url`, or to a POST of `body`; for `file:`, the content of
    the file. Raises HttpFailed."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return _read_file(unquote(parts.path))
    where = f"{parts.scheme}://{parts.hostname}"
    from http.client import OK, HTTPException  # an eighth of a broker's start time

    connection = _connection(parts.scheme, parts.hostname or "", parts.port, timeouts, tls)
    try:
        connection.connect()
        connection.sock.settimeout(timeouts.read_ms / 1000)
        path = parts.path or "/"
        target = f"{path}?{parts.query}" if parts.query else path
        connection.request("GET" if body is None else "POST", target, body, dict(headers or {}))
        response = connection.getresponse()
        data = response.read(ANSWER_BYTES_MAX + 1)
    except ssl.SSLCertVerificationError as e:
        why = f"its certificate is not trusted: {e.verify_message}"
        raise HttpFailed(f"{where}: {why}", lasting=True) from None
    except (OSError, HTTPException) as e:
        raise HttpFailed(f"{where} does not answer: {e or type(e).__name__}") from None
    finally:
        connection.close()
    if len(data) > ANSWER_BYTES_MAX:
        raise HttpFailed(f"{where} answers with more than {ANSWER_BYTES_MAX} bytes", lasting=True)
    if response.status != OK:
        lasting = 300 <= response.status < 500 and response.status not in (408, 425, 429)
        raise HttpFailed(f"{where} answers {response.status} {response.reason}", lasting=lasting)
    return data


def _connection(
    scheme: str, host: str, port: int | None, timeouts: Timeouts, tls: ssl.SSLContext | None
) -> HTTPConnection:
    from http.client import HTTPConnection, HTTPSConnection

    timeout_s = timeouts.connect_ms / 1000
    if scheme == "https":
        return HTTPSConnection(host, port, timeout=timeout_s, context=tls)
    return HTTPConnection(host, port, timeout=timeout_s)


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(ANSWER_BYTES_MAX + 1)
    except OSError as e:
        raise HttpFailed(f"{path} cannot be read: {e.strerror}") from None
    if len(data) > ANSWER_BYTES_MAX:
        raise HttpFailed(f"{path} has more than {ANSWER_BYTES_MAX} bytes", lasting=True)
    return data
