"""Delegation tokens on real sockets: a login that another login makes, and that ends."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio
from nodes import running_cluster, running_node, trio_test

from pk.core.auth.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from pk.core.auth.principal import KafkaPrincipal
from pk.core.auth.scram import Mechanism
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.image import MetadataImage
from pk.net.client.admin import Admin, open_admin
from pk.net.client.admin_operations.tokens import Token
from pk.net.client.admin_operations.users import NewPassword
from pk.net.node import Node

SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
ADMIN = f'{SCRAM_LOGIN} username="admin" password="a";'
KEYS: dict[str, Any] = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": ADMIN,
    "listener.name.controller.scram-sha-256.sasl.jaas.config": ADMIN,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "delegation.token.secret.key": "the brokers' own",
    "connection.failed.authentication.delay.ms": "10",
}
ALICE, BOB = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "bob")


@asynccontextmanager
async def secured(**keys: str) -> AsyncIterator[Node]:
    given: dict[str, Any] = KEYS | keys
    async with running_node(**given) as node:
        async with open_admin(node.address, login("admin", "a")) as admin:
            for name in ("alice", "bob"):
                change = NewPassword(name, Mechanism.SCRAM_SHA_256, name, 4096)
                assert not (await admin.set_passwords([change])).errors
        yield node


def login(user: str, password: str | None = None) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": password or user,
    }


def by_token(token: Token, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
    password = b64encode(token.hmac).decode()
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": (
            f'{SCRAM_LOGIN} username="{token.token_id}" password="{password}" tokenauth="true";'
        ),
    }


async def shown(node: Node, what: Callable[[MetadataImage], bool]) -> None:
    """Wait until a node's image shows something."""
    purgatory, deadline = node.broker.purgatory, trio.current_time() + 60
    assert await purgatory.until(lambda: what(node.broker.image), (MetadataImage,), deadline)


async def allow(
    admin: Admin, who: KafkaPrincipal, operation: Operation, kind: ResourceType, name: str
) -> None:
    rule = AclBinding(kind, name, PatternType.LITERAL, str(who), "*", operation, Permission.ALLOW)
    assert not (await admin.create_acls([rule])).errors


@trio_test
async def test_a_token_is_a_login_of_its_owner() -> None:
    async with secured() as node:
        async with open_admin(node.address, login("alice")) as admin:
            token = await admin.create_token(renewers=[BOB])
            assert (token.owner, token.requester) == (ALICE, ALICE)
            with pytest.raises(KafkaError) as refused:
                await admin.describe_acls()
            assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        async with open_admin(node.address, login("admin", "a")) as admin:
            await allow(admin, ALICE, Operation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            async with open_admin(node.address, by_token(token, mechanism)) as admin:
                assert len(await admin.describe_acls()) == 1, "what alice may, her token may"
                # A token makes no tokens, and sees none.
                for ask in (admin.create_token, admin.describe_tokens):
                    with pytest.raises(KafkaError) as refused:
                        await ask()
                    assert refused.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        # Its id and HMAC are nothing without `tokenauth`, and it is nothing with another HMAC.
        wrong = by_token(token)
        wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace(' tokenauth="true"', "")
        other = by_token(token)
        other["sasl.jaas.config"] = other["sasl.jaas.config"].replace(token.token_id, "other")
        for keys in (wrong, other):
            with pytest.raises(KafkaError, match="invalid credentials"):
                async with open_admin(node.address, keys) as admin:
                    await admin.list_topics()


@trio_test
async def test_who_sees_and_changes_a_token() -> None:
    async with secured() as node:
        async with open_admin(node.address, login("alice")) as admin:
            token = await admin.create_token(renewers=[BOB], max_lifetime_ms=10**6)
            private = await admin.create_token()
            assert {t.token_id for t in await admin.describe_tokens()} == {
                token.token_id,
                private.token_id,
            }
            assert await admin.describe_tokens([]) == ()
        async with open_admin(node.address, login("bob")) as admin:
            assert await admin.describe_tokens() == (token,)
            assert await admin.describe_tokens([BOB]) == (token,), "owners and renewers count"
            assert await admin.renew_token(token.hmac, 500_000) < token.expiry_ms
            for change in (admin.renew_token, admin.expire_token):
                with pytest.raises(KafkaError) as refused:
                    await change(private.hmac)
                assert refused.value.code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
            with pytest.raises(KafkaError) as refused:
                await admin.create_token(owner=ALICE)
            assert refused.value.code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        async with open_admin(node.address, login("admin", "a")) as admin:
            await allow(
                admin, BOB, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, private.token_id
            )
            await allow(admin, BOB, Operation.CREATE_TOKENS, ResourceType.USER, str(ALICE))
        async with open_admin(node.address, login("bob")) as admin:
            assert {t.token_id for t in await admin.describe_tokens([ALICE])} == {
                token.token_id,
                private.token_id,
            }
            hers = await admin.create_token(owner=ALICE)
            assert (hers.owner, hers.requester) == (ALICE, BOB)
            assert await admin.expire_token(token.hmac) == -1
            with pytest.raises(KafkaError) as refused:
                await admin.renew_token(token.hmac)
            assert refused.value.code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        with pytest.raises(KafkaError, match="invalid credentials"):
            async with open_admin(node.address, by_token(token)) as admin:
                await admin.list_topics()


@trio_test
async def test_a_session_by_token_ends_with_it_and_the_controller_removes_it() -> None:
    keys = {
        "delegation.token.expiry.time.ms": "600000",
        "delegation.token.expiry.check.interval.ms": "20",
    }
    async with secured(**keys) as node, open_admin(node.address, login("alice")) as admin:
        token = await admin.create_token()
        async with open_admin(node.address, by_token(token)) as hers:
            await hers.list_topics()
        await admin.expire_token(token.hmac, 1)
        await shown(node, lambda image: not image.tokens)


class Dashes(Random):
    """RandomSource that first draws what would be printed with '-' at its beginning."""

    def __init__(self) -> None:
        super().__init__(1)
        self._first = True

    def randbytes(self, n: int) -> bytes:
        drawn = (b"\xf8" if self._first else b"a") + super().randbytes(n - 1)
        self._first = False
        return drawn


@trio_test
async def test_the_id_of_a_token_is_no_option() -> None:
    """`pk users tokens renew` takes it as an argument."""
    async with secured() as node, open_admin(node.address, login("alice")) as admin:
        node.broker.random = Dashes()
        token = await admin.create_token()
        assert not token.token_id.startswith("-")


@trio_test
async def test_without_a_secret_there_are_none() -> None:
    async with (
        secured(**{"delegation.token.secret.key": ""}) as node,
        open_admin(node.address, login("alice")) as admin,
    ):
        for ask in (admin.create_token, admin.describe_tokens):
            with pytest.raises(KafkaError) as refused:
                await ask()
            assert refused.value.code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


@trio_test
async def test_who_proved_nothing_may_not_ask() -> None:
    async with (
        running_node(delegation__token__secret__key="hush") as node,
        open_admin(node.address) as admin,
    ):
        for ask in (admin.create_token, admin.describe_tokens):
            with pytest.raises(KafkaError) as refused:
                await ask()
            assert refused.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        for change in (admin.renew_token, admin.expire_token):
            with pytest.raises(KafkaError) as refused:
                await change(b"x")
            assert refused.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@trio_test
async def test_any_broker_knows_a_token_and_a_restart_keeps_it() -> None:
    async with running_cluster(2, **KEYS) as cluster:
        first, second = cluster.nodes[1], cluster.nodes[2]
        async with open_admin(first.address, login("admin", "a")) as admin:
            token = await admin.create_token()
        await shown(second, lambda image: token.token_id in image.tokens)
        async with open_admin(second.address, by_token(token)) as admin:
            assert len((await admin.describe_cluster()).brokers) == 2
