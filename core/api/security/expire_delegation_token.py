"""ExpireDelegationToken (40), versions 1–2: makes a token expire sooner, or at once (KIP-48). Its
owner and its renewers may do this. The broker checks how the caller authenticated; the controller
decides."""

from pk.core.api.controller.decide import submit_decision
from pk.core.api.security.token_requests import ask_controller, secret_of
from pk.core.broker.requests.context import Context
from pk.core.meta import delegation_tokens
from pk.core.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


async def handle(
    context: Context, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Check the caller on the broker, and forward the request to the controller. Raises
    KafkaError."""
    return await ask_controller(context, request, ExpireDelegationTokenResponse)


async def handle_at_controller(
    context: Context, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Change the expiry, on the controller. Raises KafkaError(NOT_CONTROLLER)."""
    config, asker, now_ms = context.broker.config, context.principal, context.broker.clock.now_ms()
    secret = secret_of(config)
    return await submit_decision(
        context,
        lambda image: delegation_tokens.expire(image, request, asker, secret, now_ms),
        request,
    )
