"""Admin requests about delegation tokens (KIP-48, KIP-373)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from pk.core.auth.principal import KafkaPrincipal
from pk.core.structs import repr_without
from pk.net.client.admin_operations.base import AdminBase, check
from pk.net.client.connection import Connection

_PERIOD_OF_BROKER: int = -1
_AT_ONCE: int = -1


class Token(Struct, frozen=True):
    """A delegation token. It is used for a SCRAM login with `tokenauth=true`: its id is the user
    name, its `hmac` in base64 the password. Times are in ms since 1970."""

    token_id: str
    hmac: bytes
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    def __repr__(self) -> str:
        return repr_without(self, "hmac")


class TokenOperations(AdminBase):
    """Operations on delegation tokens. All need a connection that has logged in by other means than
    a token."""

    async def create_token(
        self,
        *,
        owner: KafkaPrincipal | None = None,
        renewers: Iterable[KafkaPrincipal] = (),
        max_lifetime_ms: int = -1,
    ) -> Token:
        """Create a token for the caller, or for `owner` (brokers from 3.3 on). `max_lifetime_ms`:
        -1 for the brokers' maximum.

        Raises KafkaError: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        DELEGATION_TOKEN_AUTHORIZATION_FAILED, INVALID_PRINCIPAL_TYPE.
        """
        from pk.core.wire.messages.create_delegation_token import (
            CreatableRenewers,
            CreateDelegationTokenRequest,
        )

        wanted = tuple(renewers)
        request = CreateDelegationTokenRequest(
            owner_principal_type=owner.type if owner is not None else None,
            owner_principal_name=owner.name if owner is not None else None,
            renewers=[
                CreatableRenewers(principal_type=one.type, principal_name=one.name)
                for one in wanted
            ],
            max_lifetime_ms=max_lifetime_ms,
        )
        made = await self._of_tokens(request, 1 if owner is None else 3)
        principal = KafkaPrincipal(made.principal_type, made.principal_name)
        requester = KafkaPrincipal(
            made.token_requester_principal_type, made.token_requester_principal_name
        )
        return Token(
            made.token_id,
            bytes(made.hmac),
            principal,
            requester,
            wanted,
            made.issue_timestamp_ms,
            made.expiry_timestamp_ms,
            made.max_timestamp_ms,
        )

    async def renew_token(self, hmac: bytes, period_ms: int = _PERIOD_OF_BROKER) -> int:
        """Make a token expire `period_ms` from now (-1: as late as brokers allow). Returns the new
        expiry time in ms since 1970.

        Raises KafkaError: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED,
        DELEGATION_TOKEN_OWNER_MISMATCH.
        """
        from pk.core.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        return (await self._of_tokens(request)).expiry_timestamp_ms

    async def expire_token(self, hmac: bytes, period_ms: int = _AT_ONCE) -> int:
        """Make a token expire `period_ms` from now, or at once for -1. Returns the expiry time in
        ms since 1970. Raises the same errors as `renew_token`."""
        from pk.core.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest

        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        return (await self._of_tokens(request)).expiry_timestamp_ms

    async def describe_tokens(
        self, owners: Iterable[KafkaPrincipal] | None = None
    ) -> tuple[Token, ...]:
        """Return the tokens of these owners (None: all owners) that the caller may see. Raises
        KafkaError."""
        from pk.core.wire.messages.describe_delegation_token import (
            DescribeDelegationTokenOwner,
            DescribeDelegationTokenRequest,
        )

        wanted = None
        if owners is not None:
            wanted = [
                DescribeDelegationTokenOwner(principal_type=one.type, principal_name=one.name)
                for one in owners
            ]
        response = await self._any(DescribeDelegationTokenRequest(owners=wanted), low=1)
        check(response, "DescribeDelegationToken")
        return tuple(
            Token(
                one.token_id,
                bytes(one.hmac),
                KafkaPrincipal(one.principal_type, one.principal_name),
                KafkaPrincipal(
                    one.token_requester_principal_type, one.token_requester_principal_name
                ),
                tuple(KafkaPrincipal(r.principal_type, r.principal_name) for r in one.renewers),
                one.issue_timestamp,
                one.expiry_timestamp,
                one.max_timestamp,
            )
            for one in response.tokens
        )

    async def _of_tokens(self, request: Any, low: int = 1) -> Any:
        async def ask(connection: Connection) -> Any:
            response = await connection.request(request, low=low)
            check(response, type(request).__name__.removesuffix("Request"))
            return response

        return await self._controller(ask)
