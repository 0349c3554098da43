"""The common part of the APIs for delegation tokens: the check of the caller, and the brokers'
shared secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pk.core.api.controller.forward import forward_to_controller
from pk.core.auth.delegation_tokens import TokenSecret, token_secret
from pk.core.auth.principal import ANONYMOUS
from pk.core.broker.requests.context import Context
from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.delegation_tokens import Lifetimes

NAMES_REQUESTER: Final = 3
"""The first version in which requests about tokens have the requester in addition to the owner
(KIP-373)."""


def secret_of(config: BrokerConfig) -> TokenSecret | None:
    """Return the brokers' shared secret, or None if they have none."""
    secret = config.delegation_token_secret_key
    return token_secret(secret) if secret else None


def lifetimes_of(config: BrokerConfig) -> Lifetimes:
    """Return the lifetimes of tokens."""
    return Lifetimes(
        config.delegation_token_expiry_time_ms, config.delegation_token_max_lifetime_ms
    )


def check_asker(context: Context) -> None:
    """Raise KafkaError(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED) if the caller has not authenticated,
    or did so with a token."""
    found = (one for one in context.broker.config.listeners if one.name == context.listener)
    listener = next(found, None)
    protocol = listener.security_protocol if listener is not None else "PLAINTEXT"
    anonymous = protocol == "SSL" and context.principal == ANONYMOUS
    if protocol == "PLAINTEXT" or anonymous or context.principal.token_authenticated:
        raise KafkaError(
            ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on"
            " delegation token authenticated channels.",
        )


async def ask_controller(context: Context, request: Any, answer: Callable[..., Any]) -> Any:
    """Return the controller's response to a change of a token's expiry, or `answer` with the error
    if the caller may not request it. Raises KafkaError."""
    try:
        check_asker(context)
    except KafkaError as e:
        return answer(error_code=e.code, expiry_timestamp_ms=-1)
    return await forward_to_controller(context, request)
