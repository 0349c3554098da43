"""CreateDelegationToken (38), versions 1–3: creates a token for the caller, or for another user
(KIP-48, KIP-373). The broker checks how the caller authenticated; the controller decides."""

from typing import Final

from pk.core.api.authorization import allows
from pk.core.api.controller.decide import submit_decision
from pk.core.api.controller.forward import forward_to_controller
from pk.core.api.security.token_requests import (
    NAMES_REQUESTER,
    check_asker,
    lifetimes_of,
    secret_of,
)
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta import delegation_tokens
from pk.core.values import new_id, uuid_text
from pk.core.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

_ERROR_TIME: Final = -1
"""The timestamps in a refusal by the broker, as in Apache Kafka."""


async def handle(
    context: Context, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Check the caller on the broker, and forward the request to the controller. Raises
    KafkaError."""
    try:
        check_asker(context)
        _check_owner(context, request)
    except KafkaError as e:
        return _refusal(context, request, e)
    return _in_version(context, await forward_to_controller(context, request))


async def handle_at_controller(
    context: Context, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Create the token, on the controller. Raises KafkaError(NOT_CONTROLLER)."""
    try:
        _check_owner(context, request)
    except KafkaError as e:
        return _refusal(context, request, e)
    config, now_ms = context.broker.config, context.broker.clock.now_ms()
    secret, lifetimes = secret_of(config), lifetimes_of(config)
    token_id = uuid_text(new_id(context.broker.random.randbytes))
    asker = context.principal
    created = await submit_decision(
        context,
        lambda image: delegation_tokens.create(request, asker, secret, lifetimes, token_id, now_ms),
        request,
    )
    return _in_version(context, created)


def _check_owner(context: Context, request: CreateDelegationTokenRequest) -> None:
    owner = delegation_tokens.owner_of(request, context.principal)
    if owner != context.principal and not allows(
        context, Operation.CREATE_TOKENS, ResourceType.USER, str(owner)
    ):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


def _refusal(
    context: Context, request: CreateDelegationTokenRequest, error: KafkaError
) -> CreateDelegationTokenResponse:
    owner = delegation_tokens.owner_of(request, context.principal)
    refusal = CreateDelegationTokenResponse(
        error_code=error.code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=context.principal.type,
        token_requester_principal_name=context.principal.name,
        issue_timestamp_ms=_ERROR_TIME,
        expiry_timestamp_ms=_ERROR_TIME,
        max_timestamp_ms=_ERROR_TIME,
    )
    return _in_version(context, refusal)


def _in_version(
    context: Context, response: CreateDelegationTokenResponse
) -> CreateDelegationTokenResponse:
    """Remove the requester of the token, which versions before 3 do not have."""
    if context.api_version < NAMES_REQUESTER:
        response.token_requester_principal_type = response.token_requester_principal_name = ""
    return response
