"""SASL on real sockets: what clients of others make of it, and what a peer can do before it is
authenticated."""

from __future__ import annotations

import contextlib
import logging
import math
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
import trio
from nodes import Caller, caller_of, running_cluster, running_node, trio_test

from pk.core.auth.plain import PlainClient
from pk.core.auth.scram import Mechanism, ScramClient
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.header import frame_request
from pk.core.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pk.core.wire.messages.api_versions import ApiVersionsRequest
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pk.core.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pk.core.wire.messages.sasl_handshake import SaslHandshakeRequest
from pk.net import listener_security
from pk.net.client import connection as client_connection
from pk.net.client.admin import open_admin
from pk.net.client.config import parse
from pk.net.client.consumer import open_consumer
from pk.net.client.producer import open_producer
from pk.net.client.results import NewTopic
from pk.net.connection import login as server_login
from pk.net.node import Node

PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
ADMIN = 'username="admin" password="adm;n\\"s"'
PASSWORD = 'adm;n"s'
LISTENER = {
    "listener__security__protocol__map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter__broker__listener__name": "CLIENTS",
    "sasl__mechanism__inter__broker__protocol": "SCRAM-SHA-512",
    "sasl__enabled__mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.clients.plain.sasl.jaas.config": (
        f'{PLAIN_LOGIN} {ADMIN} user_admin="adm;n\\"s" user_alice="wonder";'
    ),
    "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{SCRAM_LOGIN} {ADMIN};",
    "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{SCRAM_LOGIN} {ADMIN};",
    "connection__failed__authentication__delay__ms": "10",
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@asynccontextmanager
async def secured(**keys: str) -> AsyncIterator[Node]:
    given: dict[str, Any] = {"listeners": "CLIENTS://127.0.0.1:0", **LISTENER, **keys}
    async with running_node(**given) as node:
        yield node


def login(
    mechanism: str = "PLAIN", user: str = "admin", password: str = PASSWORD
) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


async def authenticated(caller: Caller, user: str = "alice", password: str = "wonder") -> Any:
    """A connection that logs in by PLAIN; the answer to its last request."""
    assert (await caller.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)).error_code == 0
    token = PlainClient(user, password).step(b"")
    return await caller.call(SaslAuthenticateRequest(auth_bytes=token), 2)


async def set_user(
    node: Node, user: str, password: str, mechanism: Mechanism, salt: bytes = b"salt" * 6
) -> None:
    upsertion = ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=4096,
        salt=salt,
        salted_password=mechanism.salted_password(password, salt, 4096),
    )
    async with caller_of(node) as caller:
        assert (await authenticated(caller, "admin", PASSWORD)).error_code == 0
        request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
        (result,) = (await caller.call(request, 0)).results
        assert result.error_code == 0


async def make_topic(node: Node) -> None:
    async with open_admin(node.address, login()) as admin:
        await admin.create_topics([NewTopic("t", 1, 1)])


# --- clients of others ---


def by_kafka_python(address: str, mechanism: str) -> None:
    how: dict[str, Any] = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "admin",
        "sasl_plain_password": PASSWORD,
    }
    producer = kafka.KafkaProducer(**how)
    producer.send("t", b"kafka-python").get(60)
    producer.close()
    consumer = kafka.KafkaConsumer(
        "t", **how, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    assert next(consumer).value == b"kafka-python"
    consumer.close()


def by_librdkafka(address: str, mechanism: str) -> None:
    how: dict[str, Any] = {"bootstrap.servers": address, **login(mechanism)}
    failed: list[object] = []
    producer = confluent_kafka.Producer(how)
    producer.produce("t", b"librdkafka", on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(60) == 0 and failed == [None]
    consumer = confluent_kafka.Consumer(
        {**how, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["t"])
    message = consumer.poll(60)
    assert message is not None and message.value() == b"librdkafka"
    consumer.close()


def by_aiokafka(address: str, mechanism: str) -> None:
    import asyncio

    how: dict[str, Any] = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "admin",
        "sasl_plain_password": PASSWORD,
    }

    async def main() -> None:
        async with aiokafka.AIOKafkaProducer(**how) as producer:
            await producer.send_and_wait("t", b"aiokafka")
        consumer = aiokafka.AIOKafkaConsumer("t", **how, auto_offset_reset="earliest")
        async with consumer:
            message = await asyncio.wait_for(consumer.getone(), 60)
            assert message.value == b"aiokafka"

    asyncio.run(main())


def by_kcat(address: str, mechanism: str) -> None:
    how = [word for key, value in login(mechanism).items() for word in ("-X", f"{key}={value}")]
    words = ["kcat", "-b", address, *how, "-t", "t", "-p", "0"]
    subprocess.run([*words, "-P"], input=b"kcat", check=True, timeout=60)
    read = subprocess.run(
        [*words, "-C", "-o", "beginning", "-e", "-q", "-m", "60"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert read.stdout == b"kcat\n"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", [by_kafka_python, by_librdkafka, by_aiokafka, by_kcat])
def test_clients_of_others_produce_and_consume(
    client: Callable[[str, str], None], mechanism: str
) -> None:
    import shutil

    if client is by_kcat and shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")

    @trio_test
    async def run() -> None:
        async with secured() as node:
            await make_topic(node)
            await trio.to_thread.run_sync(client, node.address, mechanism)

    run()


# --- pk's own client ---


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_pk_produces_and_consumes(mechanism: str) -> None:
    @trio_test
    async def run() -> None:
        async with secured() as node:
            await make_topic(node)
            async with open_producer(node.address, login(mechanism)) as producer:
                await (await producer.send("t", b"x"))
            keys = {**login(mechanism), "auto.offset.reset": "earliest", "group.id": "g"}
            async with open_consumer(node.address, keys) as consumer:
                consumer.subscribe(["t"])
                async for record in consumer:
                    assert record.value == b"x"
                    break

    run()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_said_at_once(mechanism: str) -> None:
    @trio_test
    async def run() -> None:
        async with secured() as node:
            with pytest.raises(KafkaError, match="Authentication failed") as failed:
                async with open_admin(node.address, login(mechanism, password="hush")) as admin:
                    await admin.list_topics()
            assert failed.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert "hush" not in str(failed.value)

    run()


@trio_test
async def test_a_mechanism_that_the_listener_lacks_is_said_with_those_it_has() -> None:
    async with secured(sasl__enabled__mechanisms="SCRAM-SHA-512") as node:
        with pytest.raises(KafkaError, match="does not enable PLAIN; it enables SCRAM-SHA-512"):
            async with open_admin(node.address, login()) as admin:
                await admin.list_topics()


@trio_test
async def test_a_login_by_jaas() -> None:
    async with secured() as node:
        keys = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f"{SCRAM_LOGIN} {ADMIN};",
        }
        async with open_admin(node.address, keys) as admin:
            assert await admin.list_topics() == ()


@trio_test
async def test_a_listener_without_sasl_says_so_to_a_client_with_it() -> None:
    async with running_node() as node:
        with pytest.raises(KafkaError, match="does not use SASL: is security.protocol right"):
            async with open_admin(node.address, login()) as admin:
                await admin.list_topics()


# --- users in the metadata ---


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_users_come_change_and_go(mechanism: Mechanism) -> None:
    @trio_test
    async def run() -> None:
        async with secured() as node:

            async def logs_in(password: str) -> bool:
                try:
                    keys = login(mechanism.sasl_name, "carol", password)
                    async with open_admin(node.address, keys) as admin:
                        await admin.list_topics()
                except KafkaError as e:
                    assert e.code == ErrorCode.SASL_AUTHENTICATION_FAILED
                    return False
                return True

            assert not await logs_in("one")
            await set_user(node, "carol", "one", mechanism)
            assert await logs_in("one") and not await logs_in("two")
            await set_user(node, "carol", "two", mechanism)
            assert await logs_in("two") and not await logs_in("one")
            async with caller_of(node) as caller:
                await authenticated(caller)
                gone = ScramCredentialDeletion(name="carol", mechanism=mechanism)
                await caller.call(AlterUserScramCredentialsRequest(deletions=[gone]), 0)
            assert not await logs_in("two")

    run()


@trio_test
async def test_the_first_answer_does_not_tell_who_exists() -> None:
    async with secured() as node:
        await set_user(node, "carol", "one", Mechanism.SCRAM_SHA_256)

        async def first(user: str) -> bytes:
            async with caller_of(node) as caller:
                shake = SaslHandshakeRequest(mechanism="SCRAM-SHA-256")
                assert (await caller.call(shake, 1)).error_code == 0
                client = ScramClient(Mechanism.SCRAM_SHA_256, user, "x", "abc")
                token = SaslAuthenticateRequest(auth_bytes=client.step(b""))
                answer = await caller.call(token, 2)
                assert answer.error_code == 0
                return bytes(answer.auth_bytes).split(b",", 1)[1]

        strange = await first("nobody")
        assert strange == await first("nobody") != await first("carol")
        assert len(strange) == len(await first("carol"))


# --- before authentication ---


@trio_test
async def test_a_request_before_authentication_closes_the_connection() -> None:
    async with secured() as node, caller_of(node) as caller:
        versions = await caller.call(
            ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3
        )
        assert {17, 36} <= {one.api_key for one in versions.api_keys}
        await caller.send(MetadataRequest(), 12)
        assert await caller.at_end()


@trio_test
async def test_a_failed_login_is_answered_late_and_then_closed() -> None:
    async with (
        secured(connection__failed__authentication__delay__ms="300") as node,
        caller_of(node) as caller,
    ):
        begun = trio.current_time()
        answer = await authenticated(caller, "alice", "hush")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert trio.current_time() - begun >= 0.3
        assert await caller.at_end()


def test_failed_logins_are_logged_without_the_password(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_security, "FAILURES_LOGGED_S", math.inf)
    caplog.set_level(logging.DEBUG)

    @trio_test
    async def run() -> None:
        async with secured() as node:
            for _ in range(3):
                async with caller_of(node) as caller:
                    await authenticated(caller, "alice", "hush-hush")

    run()
    lines = [r.message for r in caplog.records if "Failed authentication" in r.message]
    assert lines and "Invalid username or password" in lines[0] and "CLIENTS" in lines[0]
    assert len(lines) == 1, "one line in a while"
    assert not any(
        word in record.getMessage() for record in caplog.records for word in ("hush-hush", "wonder")
    )


@trio_test
async def test_what_is_large_before_authentication_closes_the_connection() -> None:
    async with secured() as node, caller_of(node) as caller:
        await caller.stream.send_all((600_000).to_bytes(4, "big") + bytes(10))
        assert await caller.at_end()


@trio_test
async def test_who_takes_too_long_is_closed() -> None:
    async with (
        secured(pk__authentication__timeout__ms="200") as node,
        caller_of(node) as silent,
        caller_of(node) as half,
    ):
        await half.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert await silent.at_end()
        # A busy machine may send too late, to a closed connection.
        with pytest.raises((EOFError, trio.BrokenResourceError)):
            while True:
                await half.receive_frame()


@trio_test
async def test_a_handshake_where_none_is_due() -> None:
    async with running_node() as node, caller_of(node) as caller:
        shaken = await caller.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert (shaken.error_code, shaken.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        answer = await caller.call(SaslAuthenticateRequest(auth_bytes=b"x"), 2)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await caller.call(MetadataRequest(), 12)).brokers


# --- sessions that end ---


@trio_test
async def test_a_session_that_has_ended_closes_the_connection_at_the_next_request() -> None:
    async with secured(connections__max__reauth__ms="200") as node, caller_of(node) as caller:
        assert (await authenticated(caller)).session_lifetime_ms == 200
        await trio.sleep(0.3)
        await caller.send(MetadataRequest(), 12)
        assert await caller.at_end()


@trio_test
async def test_who_authenticates_again_goes_on() -> None:
    async with secured(connections__max__reauth__ms="60000") as node, caller_of(node) as caller:
        await authenticated(caller)
        assert (await authenticated(caller)).session_lifetime_ms == 60000
        assert (await caller.call(MetadataRequest(), 12)).brokers


@trio_test
async def test_who_comes_too_late_may_still_authenticate_again() -> None:
    async with secured(connections__max__reauth__ms="200") as node, caller_of(node) as caller:
        await authenticated(caller)
        await trio.sleep(0.3)
        assert (await authenticated(caller)).session_lifetime_ms == 200


def test_who_authenticates_again_too_soon_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_login, "BETWEEN_AUTHENTICATIONS_S", math.inf)

    @trio_test
    async def run() -> None:
        async with secured(connections__max__reauth__ms="60000") as node, caller_of(node) as caller:
            await authenticated(caller)
            await authenticated(caller)
            shaken = await caller.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            assert shaken.error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert (await caller.call(MetadataRequest(), 12)).brokers

    run()


@trio_test
async def test_nobody_becomes_somebody_else_on_the_way() -> None:
    async with secured(connections__max__reauth__ms="60000") as node, caller_of(node) as caller:
        await authenticated(caller)
        answer = await authenticated(caller, "admin", PASSWORD)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.admin"
        )
        assert await caller.at_end()


def test_pk_s_client_authenticates_again_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here before each request, since its sessions seem to end at once; always on the same
    connection."""
    monkeypatch.setattr(server_login, "BETWEEN_AUTHENTICATIONS_S", 0.0)
    monkeypatch.setattr(client_connection, "REAUTHENTICATE_SHARE_MIN", 0.0)
    monkeypatch.setattr(client_connection, "REAUTHENTICATE_SHARE_MAX", 0.0)

    @trio_test
    async def run() -> None:
        async with secured(connections__max__reauth__ms="60000") as node:
            asked: list[str] = []
            async with open_admin(
                node.address,
                login("SCRAM-SHA-512"),
                on_request=lambda trace: asked.append(trace.api_name),
            ) as admin:
                await admin.list_topics()
                first = asked.count("SaslHandshake")
                await admin.list_topics()
                assert asked.count("SaslHandshake") > first
                assert node.server.connections == 1

    run()


# --- brokers among themselves ---


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_brokers_meet_by_sasl(mechanism: str) -> None:
    """Also at the controller's listener, and before the metadata holds any user."""

    @trio_test
    async def run() -> None:
        users = 'user_admin="adm;n\\"s"' if mechanism == "PLAIN" else ""
        module = PLAIN_LOGIN if mechanism == "PLAIN" else SCRAM_LOGIN
        keys = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": mechanism,
            "sasl.mechanism.inter.broker.protocol": mechanism,
            "sasl.mechanism.controller.protocol": mechanism,
        }
        for listener in ("plaintext", "controller"):
            name = f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"
            keys[name] = f"{module} {ADMIN} {users};"
        given: dict[str, Any] = keys
        async with running_cluster(2, **given) as cluster:
            address = cluster.nodes[1].address
            async with open_admin(address, login(mechanism)) as admin:
                await admin.create_topics([NewTopic("t", 2, 2)])
                assert len((await admin.describe_cluster()).brokers) == 2
            async with open_producer(address, {**login(mechanism), "acks": "all"}) as producer:
                for partition in (0, 1):
                    sent = await producer.send("t", b"copied", partition=partition)
                    assert (await sent).offset == 0

    run()


def test_clients_of_every_kind_take_the_keys() -> None:
    from pk.net.client.config import AdminConfig, ConsumerConfig, ProducerConfig

    for cls in (AdminConfig, ConsumerConfig, ProducerConfig):
        assert "hush" not in repr(parse(cls, login(password="hush")))


# --- requests that come in the middle ---


@trio_test
async def test_a_request_instead_of_a_token_is_answered_and_the_connection_ends() -> None:
    async with secured() as node:
        for request, version in ((MetadataRequest(), 12), (ApiVersionsRequest(), 3)):
            async with caller_of(node) as caller:
                shaken = await caller.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                assert shaken.error_code == 0
                answer = await caller.call(request, version)
                codes = [getattr(answer, "error_code", 0)]
                codes += [topic.error_code for topic in getattr(answer, "topics", ())]
                if isinstance(request, ApiVersionsRequest):
                    assert codes == [ErrorCode.ILLEGAL_SASL_STATE]
                assert await caller.at_end()
        async with caller_of(node) as caller:
            await caller.send(MetadataRequest(), 12)
            assert await caller.at_end(), "before a handshake nothing is answered"


@trio_test
async def test_a_request_that_names_much_is_not_answered_in_the_middle() -> None:
    """Decoding and answering it would delay every other client for an unauthenticated one."""
    async with secured() as node, caller_of(node) as caller:
        shaken = await caller.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert shaken.error_code == 0
        topics = [MetadataRequestTopic(name="t")] * 2 * server_login.ANSWERED_ELEMENTS_MAX
        await caller.send(MetadataRequest(topics=topics), 12)
        assert await caller.at_end()


async def until_the_end(caller: Caller) -> None:
    """Read until the broker closes the connection."""
    with contextlib.suppress(EOFError, trio.BrokenResourceError):
        while True:
            await caller.receive_frame()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("step", [0, 1])
def test_noise_within_an_exchange_ends_it_and_nobody_else_s(mechanism: str, step: int) -> None:
    chance = Random(f"{mechanism}{step}")

    def noise(kind: int) -> bytes:
        token = chance.randbytes(chance.randrange(60))
        good = frame_request(SaslAuthenticateRequest(auth_bytes=token), 2, 1, "noise")
        return (
            good,
            chance.randbytes(chance.randrange(4, 200)),
            good[: chance.randrange(1, len(good))],
            b"\x7f\xff\xff\xff" + token,
            good[:4] + chance.randbytes(len(good) - 4),
            b"\0\0\0\4" + token[:4].ljust(4, b"\0"),
        )[kind]

    @trio_test
    async def ask() -> None:
        async with secured() as node, caller_of(node) as other:
            assert (await authenticated(other)).error_code == 0
            for number in range(12):
                async with caller_of(node) as caller:
                    await caller.call(SaslHandshakeRequest(mechanism=mechanism), 1)
                    if step and mechanism != "PLAIN":
                        client = ScramClient(Mechanism.named(mechanism), "admin", "x", "nonce")
                        begun = SaslAuthenticateRequest(auth_bytes=client.step(b""))
                        assert (await caller.call(begun, 2)).error_code == 0
                    with contextlib.suppress(trio.BrokenResourceError):
                        await caller.stream.send_all(noise(number % 6))
                        await caller.stream.send_eof()
                    await until_the_end(caller)
            assert (await other.call(MetadataRequest(), 12)).brokers

    ask()
