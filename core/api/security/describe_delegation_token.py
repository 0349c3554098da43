"""DescribeDelegationToken (41), versions 1–3: the tokens that the caller owns or may renew, and
those that it may describe. The response has their HMACs, with which any client can log in, so other
callers must not get it."""

from pk.core.api.authorization import allows
from pk.core.api.security.token_requests import NAMES_REQUESTER, check_asker, secret_of
from pk.core.auth.acls import Operation, ResourceType
from pk.core.auth.delegation_tokens import DelegationToken
from pk.core.auth.principal import KafkaPrincipal
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


async def handle(
    context: Context, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Describe tokens in this broker's image."""
    try:
        check_asker(context)
    except KafkaError as e:
        return DescribeDelegationTokenResponse(error_code=e.code)
    secret = secret_of(context.broker.config)
    if secret is None:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners: set[KafkaPrincipal] | None = None
    if request.owners is not None:
        owners = {KafkaPrincipal(one.principal_type, one.principal_name) for one in request.owners}
    tokens = [
        _described(token, secret.hmac(token.token_id), context.api_version >= NAMES_REQUESTER)
        for token in list(context.broker.image.tokens.values())
        if _is_wanted(token, owners) and _may_see(context, token)
    ]
    return DescribeDelegationTokenResponse(tokens=tokens)


def _is_wanted(token: DelegationToken, owners: set[KafkaPrincipal] | None) -> bool:
    return owners is None or token.owner in owners or not owners.isdisjoint(token.renewers)


def _may_see(context: Context, token: DelegationToken) -> bool:
    if token.belongs_to(context.principal):
        return True
    kind = ResourceType.DELEGATION_TOKEN
    return allows(context, Operation.DESCRIBE, kind, token.token_id, log=False) or allows(
        context, Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner), log=False
    )


def _described(
    token: DelegationToken, hmac: bytes, names_requester: bool
) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type if names_requester else "",
        token_requester_principal_name=token.requester.name if names_requester else "",
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=one.type, principal_name=one.name)
            for one in token.renewers
        ],
    )
