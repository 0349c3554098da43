"""Decisions about delegation tokens: errors and times as Apache Kafka's."""

from __future__ import annotations

import pytest

from pk.core.auth.delegation_tokens import TokenSecret
from pk.core.auth.principal import KafkaPrincipal
from pk.core.errors import ErrorCode
from pk.core.meta import delegation_tokens
from pk.core.meta.delegation_tokens import Lifetimes
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from pk.core.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from pk.core.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

ALICE, BOB, EVE = (KafkaPrincipal("User", name) for name in ("alice", "bob", "eve"))
SECRET, LIVES = TokenSecret("hush"), Lifetimes(expiry_ms=100, max_ms=1000)


def renewers(*names: str, kind: str = "User") -> list[CreatableRenewers]:
    return [CreatableRenewers(principal_type=kind, principal_name=name) for name in names]


def with_token(now_ms: int = 0, max_lifetime_ms: int = -1) -> tuple[MetadataImage, bytes]:
    request = CreateDelegationTokenRequest(
        renewers=renewers("bob"), max_lifetime_ms=max_lifetime_ms
    )
    decision = delegation_tokens.create(request, ALICE, SECRET, LIVES, "id", now_ms)
    return MetadataImage().apply(decision.records), decision.reply.hmac


@pytest.mark.parametrize(
    ("wanted_ms", "expiry_ms", "max_ms"), [(-1, 110, 1010), (50, 60, 60), (5000, 110, 1010)]
)
def test_a_token_lives_as_long_as_brokers_let_it(
    wanted_ms: int, expiry_ms: int, max_ms: int
) -> None:
    image, hmac = with_token(10, wanted_ms)
    token = image.tokens["id"]
    assert (token.issue_ms, token.expiry_ms, token.max_ms) == (10, expiry_ms, max_ms)
    assert (token.owner, token.requester, token.renewers) == (ALICE, ALICE, (BOB,))
    assert SECRET.find(image.tokens, hmac) is token and len(hmac) == 64
    assert TokenSecret("other").find(image.tokens, hmac) is None


def test_who_asks_for_another_is_the_requester() -> None:
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")
    decision = delegation_tokens.create(request, ALICE, SECRET, LIVES, "id", 0)
    token = MetadataImage().apply(decision.records).tokens["id"]
    assert (token.owner, token.requester) == (BOB, ALICE)


@pytest.mark.parametrize(
    ("secret", "asked", "error"),
    [
        (None, renewers("bob"), ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        (SECRET, renewers("bob", kind="Group"), ErrorCode.INVALID_PRINCIPAL_TYPE),
        (SECRET, renewers(*"a" * 1001), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_made(
    secret: TokenSecret | None, asked: list[CreatableRenewers], error: ErrorCode
) -> None:
    request = CreateDelegationTokenRequest(renewers=asked)
    decision = delegation_tokens.create(request, ALICE, secret, LIVES, "id", 0)
    assert (decision.reply.error_code, decision.records) == (error, [])
    assert decision.reply.hmac == b""


@pytest.mark.parametrize("asker", [ALICE, BOB])
def test_owner_and_renewers_renew_until_the_end(asker: KafkaPrincipal) -> None:
    image, hmac = with_token()

    def renew(period_ms: int, now_ms: int) -> tuple[int, int]:
        nonlocal image
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        decision = delegation_tokens.renew(image, request, asker, SECRET, LIVES, now_ms)
        image = image.apply(decision.records)
        return decision.reply.error_code, decision.reply.expiry_timestamp_ms

    assert renew(-1, 50) == (0, 150)
    assert renew(20, 60) == (0, 80)
    assert renew(10**6, 70) == (0, 170)
    assert image.tokens["id"].expiry_ms == 170
    assert renew(-1, 171) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)
    for now_ms in range(160, 1000, 100):
        image = with_token()[0].apply(
            delegation_tokens.renew(
                with_token()[0], RenewDelegationTokenRequest(hmac=hmac), asker, SECRET,
                Lifetimes(10**9, 1000), 0,
            ).records
        )  # fmt: skip
        assert image.tokens["id"].expiry_ms == 1000, now_ms


def test_a_token_ends_at_once_or_later() -> None:
    image, hmac = with_token()

    def expire(period_ms: int, asker: KafkaPrincipal = ALICE) -> tuple[int, int]:
        nonlocal image
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        decision = delegation_tokens.expire(image, request, asker, SECRET, 40)
        image = image.apply(decision.records)
        return decision.reply.error_code, decision.reply.expiry_timestamp_ms

    assert expire(-1, EVE) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert expire(7) == (0, 47) and image.tokens["id"].expiry_ms == 47
    assert expire(5000) == (0, 1000)
    assert expire(-1) == (0, -1) and not image.tokens
    assert expire(-1) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


def test_what_is_over_is_removed() -> None:
    image, hmac = with_token()
    assert delegation_tokens.remove_expired(image, 100).records == []
    decision = delegation_tokens.remove_expired(image, 101)
    assert decision.reply == 1
    image = image.apply(decision.records)
    assert not image.tokens and SECRET.find(image.tokens, hmac) is None
