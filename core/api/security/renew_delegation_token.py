"""RenewDelegationToken (39), versions 1–2: makes a token expire later (KIP-48). Its owner and its
renewers may do this. The broker checks how the caller authenticated; the controller decides."""

from pk.core.api.controller.decide import submit_decision
from pk.core.api.security.token_requests import ask_controller, lifetimes_of, secret_of
from pk.core.broker.requests.context import Context
from pk.core.meta import delegation_tokens
from pk.core.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


async def handle(
    context: Context, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Check the caller on the broker, and forward the request to the controller. Raises
    KafkaError."""
    return await ask_controller(context, request, RenewDelegationTokenResponse)


async def handle_at_controller(
    context: Context, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Change the expiry, on the controller. Raises KafkaError(NOT_CONTROLLER)."""
    config, asker, now_ms = context.broker.config, context.principal, context.broker.clock.now_ms()
    secret = secret_of(config)
    return await submit_decision(
        context,
        lambda image: delegation_tokens.renew(
            image, request, asker, secret, lifetimes_of(config), now_ms
        ),
        request,
    )
