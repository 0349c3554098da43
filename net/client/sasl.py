"""A client's login by SASL: SaslHandshake, then the mechanism's messages in SaslAuthenticate
requests (KIP-43, KIP-152)."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from pk.core.auth.oauthbearer import OAuthBearerClient
from pk.core.auth.plain import PlainClient
from pk.core.auth.sasl import GSSAPI, OAUTHBEARER, PLAIN, ClientExchange
from pk.core.auth.scram import Mechanism, ScramClient
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pk.core.wire.messages.sasl_handshake import SaslHandshakeRequest
from pk.net.client.common_config import ClientConfig, has_token, login_of
from pk.net.client.gssapi import gssapi_client
from pk.net.client.oauth import token_settings
from pk.net.oauth.token_source import token_source

HANDSHAKE: Final = 17
AUTHENTICATE: Final = 36

_NONCE_BYTES: Final = 24

Ask = Callable[[Any, int], Awaitable[Any]]
"""(request, version) → its answer."""


async def log_in(
    config: ClientConfig, host: str, version_of: Callable[[int], int], ask: Ask
) -> int:
    """Authenticate over a connection to `host` that has negotiated versions. Returns the lifetime
    of the session in ms, 0 for unlimited.

    Raises KafkaError if the broker refuses, SaslError if the broker does not prove its identity,
    and what `ask` raises.
    """
    mechanism = config.sasl_mechanism
    exchange = await _exchange(config, host)
    if version_of(HANDSHAKE) < 1:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "the broker is older than 1.0: it has no SaslAuthenticate",
        )
    answer = await ask(SaslHandshakeRequest(mechanism=mechanism), 1)
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "none"
        raise KafkaError(
            answer.error_code, f"its listener does not enable {mechanism}; it enables {offered}"
        )
    if answer.error_code:
        raise KafkaError(
            answer.error_code, "its listener does not use SASL: is security.protocol right?"
        )
    version = version_of(AUTHENTICATE)
    # A Kerberos client sends requests to its KDC here.
    token = await trio.to_thread.run_sync(exchange.step, b"")
    while True:
        answer = await ask(SaslAuthenticateRequest(auth_bytes=token), version)
        if answer.error_code:
            raise KafkaError(answer.error_code, answer.error_message or "the login was refused")
        # Salting a password is slow on purpose.
        token = await trio.to_thread.run_sync(exchange.step, bytes(answer.auth_bytes))
        if exchange.complete and not token:
            return answer.session_lifetime_ms


async def _exchange(config: ClientConfig, host: str) -> ClientExchange:
    if config.sasl_mechanism == GSSAPI:
        return await gssapi_client(config, host)
    if config.sasl_mechanism == OAUTHBEARER:
        settings = token_settings(config)
        found = await token_source(settings).get()
        return OAuthBearerClient(found.token, dict((*settings.extensions, *found.extensions)))
    user, password = login_of(config)
    by_token = has_token(config)
    if config.sasl_mechanism == PLAIN:
        return PlainClient(user, password)
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    return ScramClient(Mechanism.named(config.sasl_mechanism), user, password, nonce, by_token)
