"""Probes a server that accepts connections but does not speak Kafka, to describe it in the error
message."""

import contextlib
import ssl
from typing import Final

import trio

_BANNER_S: Final = 0.3
"""How long to wait for a server that speaks first."""

_ANSWER_S: Final = 1.0
_GREETING_SHOWN_MAX: Final = 60
_API_VERSIONS: Final = b"\0\0\0\x0c\0\x12\0\0pk\0\x01\0\x02pk"
"""An ApiVersions v0 request with a correlation id of its own."""
_HTTP: Final = "an HTTP server answers there; Kafka brokers use another port, 9092 by default"

_TLS: Final = "it speaks TLS, but this client does not: set security.protocol to SSL or SASL_SSL"
_PLAINTEXT: Final = (
    "it speaks Kafka without TLS: set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
)
BY_CONFIG: Final = frozenset((_TLS, _PLAINTEXT))
"""The phrases of `describe_server` that name the config to change."""


async def describe_server(host: str, port: int) -> str | None:
    """Return a phrase about the server at an address: TLS, HTTP, a server that sends a greeting, or
    a silent one. Returns None if nothing listens there anymore. Takes at most a few seconds and
    raises no network errors."""
    try:
        greeting = await _first_bytes(host, port, b"", _BANNER_S)
        if greeting:
            return f"the server there says {_quoted(greeting)}, so it is not a Kafka broker"
        tls = await _first_bytes(host, port, _client_hello(host), _ANSWER_S)
        if tls[:1] in (b"\x15", b"\x16") and tls[1:2] == b"\x03":
            return _TLS
        plain = await _first_bytes(host, port, _API_VERSIONS, _ANSWER_S)
        if plain[4:8] == _API_VERSIONS[8:12]:
            return _PLAINTEXT
        if await _is_http(host, port, _ANSWER_S):
            return _HTTP
    except (OSError, UnicodeError):
        return None
    return (
        "it accepts connections but does not answer like Kafka: the broker hangs, or this is not a "
        "Kafka broker"
    )


async def describe_silent_server(host: str, port: int, wait_s: float) -> str | None:
    """Return a phrase about a server that accepted a Kafka request without answering: an HTTP
    server may be waiting for the end of a line. Returns None if it may be a broker. Takes at most
    `wait_s`, or a second."""
    try:
        return _HTTP if await _is_http(host, port, min(wait_s, _ANSWER_S)) else None
    except (OSError, UnicodeError):
        return None


async def _is_http(host: str, port: int, wait_s: float) -> bool:
    answer = await _first_bytes(host, port, b"GET / HTTP/1.0\r\n\r\n", wait_s)
    return answer.startswith(b"HTTP/")


async def _first_bytes(host: str, port: int, request: bytes, wait_s: float) -> bytes:
    """Return the first bytes received after sending `request`; empty if the server sends nothing in
    time or closes the connection."""
    answer = b""
    with trio.move_on_after(wait_s):
        stream = await trio.open_tcp_stream(host, port)
        async with stream:
            try:
                if request:
                    await stream.send_all(request)
                answer = bytes(await stream.receive_some(1024))
            except trio.BrokenResourceError:
                return b""
    return answer


def _client_hello(host: str) -> bytes:
    """Return the first bytes that a TLS client sends."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=host).do_handshake()
    return outgoing.read()


def _quoted(greeting: bytes) -> str:
    line = greeting.split(b"\n")[0].decode("ascii", "replace").strip()
    printable = "".join(c if c.isprintable() else "?" for c in line)
    return repr(printable[:_GREETING_SHOWN_MAX])
