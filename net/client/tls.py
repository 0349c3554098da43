"""The client side of TLS: the handshake on a new connection, and errors that name the key to
check."""

from __future__ import annotations

import socket
import ssl
from functools import lru_cache
from typing import Final

import trio

from pk.net.client.common_config import ClientConfig
from pk.net.client.errors import ConfigError, ConnectFailed
from pk.net.client.node import Node
from pk.net.tls.contexts import CurrentContext, TlsError, client_context, reason_of
from pk.net.tls.settings import TlsSettings
from pk.net.tls.sockets import TlsSocket

_NOT_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
)

_REFUSALS: Final = (
    (
        ("ALERT_CERTIFICATE_REQUIRED",),
        "it refuses this client: it asks for a certificate that it trusts (ssl.keystore.location)",
    ),
    (
        ("ALERT_HANDSHAKE_FAILURE",),
        "it refuses this client: it asks for a certificate that it trusts (ssl.keystore.location),"
        + " or has no cipher suite in common with this client (ssl.cipher.suites)",
    ),
    (
        ("ALERT_CERTIFICATE_EXPIRED", "ALERT_CERTIFICATE_REVOKED"),
        "this client's certificate has expired or is revoked (ssl.keystore.location)",
    ),
    (
        (
            "ALERT_UNKNOWN_CA",
            "ALERT_BAD_CERTIFICATE",
            "ALERT_CERTIFICATE_UNKNOWN",
            "ALERT_UNSUPPORTED_CERTIFICATE",
        ),
        "it does not trust this client's certificate (ssl.keystore.location)",
    ),
    (
        ("ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL"),
        "it has no TLS version in common with this client (ssl.enabled.protocols)",
    ),
)
"""Suffixes of OpenSSL's reasons, and their meaning: the alerts of RFC 8446."""


@lru_cache(maxsize=32)
def _contexts(settings: TlsSettings) -> CurrentContext:
    return CurrentContext(lambda: settings, client_context, "this client")


async def begin_tls(sock: trio.socket.SocketType, node: Node, config: ClientConfig) -> TlsSocket:
    """Do the handshake on `sock`, and return the TLS socket, which then owns `sock`. Raises
    ConnectFailed, ConfigError, OSError."""
    context = config.ssl_context
    if context is None:
        settings = TlsSettings.of(lambda key: getattr(config, key.replace(".", "_"), None))
        try:
            context = await _contexts(settings).get()
        except TlsError as e:
            raise ConfigError(str(e)) from None
    plain = socket.socket(fileno=sock.detach())
    try:
        secured = TlsSocket(plain, context, node.host)
    except BaseException:
        plain.close()
        raise
    try:
        await secured.handshake()
    except ssl.SSLCertVerificationError as e:
        secured.close()
        raise ConnectFailed(
            node.address,
            _certificate_problem(e),
            node_id=node.node_id,
            reached=True,
            by_config=True,
        ) from e
    except (ssl.SSLEOFError, ConnectionResetError) as e:
        secured.close()
        raise ConnectFailed(
            node.address,
            "it closed the connection in the TLS handshake",
            node_id=node.node_id,
            reached=True,
        ) from e
    except ssl.SSLError as e:
        secured.close()
        plain = e.reason in _NOT_TLS
        reason = "it does not speak TLS" if plain else refusal_of(e)
        raise ConnectFailed(
            node.address, reason, node_id=node.node_id, reached=True, by_config=not plain
        ) from e
    except BaseException:
        secured.close()
        raise
    return secured


async def certificate_end_ms(node: Node, config: ClientConfig) -> int:
    """Return when a broker's certificate expires, in ms since 1970. Raises ConnectFailed,
    ConfigError."""
    wait_s = config.socket_connection_setup_timeout_ms / 1000
    try:
        with trio.fail_after(wait_s):
            stream = await trio.open_tcp_stream(node.host, node.port)
            secured = await begin_tls(stream.socket, node, config)
    except (OSError, trio.TooSlowError) as e:
        raise ConnectFailed(node.address, str(e) or "no answer", node_id=node.node_id) from e
    try:
        end_s = secured.peer_certificate_end_s
    finally:
        secured.close()
    if end_s is None:
        raise ConnectFailed(node.address, "it sent no certificate", node_id=node.node_id)
    return int(end_s * 1000)


_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
"""OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED."""


def _certificate_problem(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code == _EXPIRED:
        return "its certificate, or that of its CA, has expired; renew it (ssl.keystore.location)"
    if error.verify_code == _NOT_YET_VALID:
        return "its certificate, or that of its CA, is not valid yet; check both machines' clocks"
    reason = f"its certificate is not trusted: {error.verify_message.rstrip('.')}"
    if "certificate is not valid for" in error.verify_message:
        return f"{reason}; use a host that it names (ssl.endpoint.identification.algorithm)"
    return f"{reason}; set ssl.truststore.location to the certificates of its CA"


def refusal_of(error: ssl.SSLError) -> str:
    """Return why the peer ended TLS."""
    for reasons, meaning in _REFUSALS:
        if any(reason in (error.reason or "") for reason in reasons):
            return meaning
    return f"the TLS handshake failed: {reason_of(error)}"
