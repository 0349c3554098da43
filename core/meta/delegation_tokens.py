"""Decisions about delegation tokens (KIP-48, KIP-373). Pure: (image, request, caller, now) → events
and a reply.

Errors and their order are those of Apache Kafka's DelegationTokenControlManager.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pk.core.auth.delegation_tokens import DelegationToken, TokenSecret
from pk.core.auth.principal import USER, KafkaPrincipal
from pk.core.errors import ErrorCode
from pk.core.machine import Decision
from pk.core.meta.events import DelegationTokenChanged, DelegationTokenRemoved, Event
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from pk.core.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from pk.core.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

RENEWERS_MAX: Final = 1000
"""The maximum number of renewers of a token. The metadata log stores each of them."""


class Lifetimes(NamedTuple):
    """The lifetimes of tokens, in ms."""

    expiry_ms: int
    """`delegation.token.expiry.time.ms`"""
    max_ms: int
    """`delegation.token.max.lifetime.ms`"""


def owner_of(request: CreateDelegationTokenRequest, requester: KafkaPrincipal) -> KafkaPrincipal:
    """Return the owner of the requested token: the requester, unless the request names another."""
    if not request.owner_principal_name:
        return requester
    return KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name)


def create(
    request: CreateDelegationTokenRequest,
    requester: KafkaPrincipal,
    secret: TokenSecret | None,
    lifetimes: Lifetimes,
    token_id: str,
    now_ms: int,
) -> Decision[Event, CreateDelegationTokenResponse]:
    """Create a token with a new id. `secret` is None if the brokers have no secret key."""
    owner = owner_of(request, requester)
    reply = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
    )
    decision: Decision[Event, CreateDelegationTokenResponse] = Decision(reply=reply)
    if secret is None:
        reply.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return decision
    if len(request.renewers) > RENEWERS_MAX:
        reply.error_code = ErrorCode.INVALID_REQUEST
        return decision
    renewers = tuple(
        KafkaPrincipal(one.principal_type, one.principal_name) for one in request.renewers
    )
    if any(renewer.type != USER for renewer in renewers):
        reply.error_code = ErrorCode.INVALID_PRINCIPAL_TYPE
        return decision
    life_ms = lifetimes.max_ms
    if request.max_lifetime_ms > 0:
        life_ms = min(life_ms, request.max_lifetime_ms)
    max_ms = now_ms + life_ms
    expiry_ms = min(max_ms, now_ms + lifetimes.expiry_ms)
    token = DelegationToken(token_id, owner, requester, renewers, now_ms, expiry_ms, max_ms)
    decision.records.append(_changed(token))
    reply.issue_timestamp_ms, reply.expiry_timestamp_ms = now_ms, expiry_ms
    reply.max_timestamp_ms = max_ms
    reply.token_id, reply.hmac = token_id, secret.hmac(token_id)
    return decision


def renew(
    image: MetadataImage,
    request: RenewDelegationTokenRequest,
    asker: KafkaPrincipal,
    secret: TokenSecret | None,
    lifetimes: Lifetimes,
    now_ms: int,
) -> Decision[Event, RenewDelegationTokenResponse]:
    """Extend a token's expiry, up to its maximum lifetime."""
    reply = RenewDelegationTokenResponse()
    decision: Decision[Event, RenewDelegationTokenResponse] = Decision(reply=reply)
    token = _checked(image, bytes(request.hmac), asker, secret, now_ms)
    if not isinstance(token, DelegationToken):
        reply.error_code = token
        return decision
    period_ms = lifetimes.expiry_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    expiry_ms = reply.expiry_timestamp_ms = min(token.max_ms, now_ms + period_ms)
    decision.records.append(_changed(token, expiry_ms))
    return decision


def expire(
    image: MetadataImage,
    request: ExpireDelegationTokenRequest,
    asker: KafkaPrincipal,
    secret: TokenSecret | None,
    now_ms: int,
) -> Decision[Event, ExpireDelegationTokenResponse]:
    """Make a token expire after a time, or at once if the time is negative."""
    reply = ExpireDelegationTokenResponse()
    decision: Decision[Event, ExpireDelegationTokenResponse] = Decision(reply=reply)
    if secret is None:
        reply.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return decision
    token = _checked(image, bytes(request.hmac), asker, secret, now_ms)
    if not isinstance(token, DelegationToken):
        reply.error_code = token
        return decision
    period_ms = request.expiry_time_period_ms
    if period_ms < 0:
        reply.expiry_timestamp_ms = period_ms
        decision.records.append(DelegationTokenRemoved(token.token_id))
        return decision
    expiry_ms = reply.expiry_timestamp_ms = min(token.max_ms, now_ms + period_ms)
    decision.records.append(_changed(token, expiry_ms))
    return decision


def remove_expired(image: MetadataImage, now_ms: int) -> Decision[Event, int]:
    """Remove expired tokens. The reply is the number of them."""
    over = [token.token_id for token in image.tokens.values() if token.is_expired(now_ms)]
    return Decision(reply=len(over), records=[DelegationTokenRemoved(one) for one in over])


def _checked(
    image: MetadataImage,
    hmac: bytes,
    asker: KafkaPrincipal,
    secret: TokenSecret | None,
    now_ms: int,
) -> DelegationToken | ErrorCode:
    """Return the token if `asker` may change it, otherwise the error."""
    token = secret.find(image.tokens, hmac) if secret is not None else None
    if token is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    if token.is_expired(now_ms):
        return ErrorCode.DELEGATION_TOKEN_EXPIRED
    if not token.belongs_to(asker):
        return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    return token


def _changed(token: DelegationToken, expiry_ms: int | None = None) -> DelegationTokenChanged:
    return DelegationTokenChanged(
        token.token_id,
        str(token.owner),
        str(token.requester),
        tuple(map(str, token.renewers)),
        token.issue_ms,
        token.expiry_ms if expiry_ms is None else expiry_ms,
        token.max_ms,
    )
