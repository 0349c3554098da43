"""GSSAPI with a real KDC: who gets in, as whom, and who does not."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NamedTuple

import pytest
import trio
from certificates import authority
from kdc import REALM, Kdc, running_kdc
from nodes import caller_of, running_cluster, running_node, trio_test

from pk.core.auth.gssapi import GssapiClient
from pk.core.auth.kerberos_login import KerberosLogin
from pk.core.broker.node_lifecycle import StartError
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.metadata import MetadataRequest
from pk.core.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pk.core.wire.messages.sasl_handshake import SaslHandshakeRequest
from pk.net.client.admin import open_admin
from pk.net.client.errors import ClientError
from pk.net.client.errors import ConfigError as ClientConfigError
from pk.net.client.producer import open_producer
from pk.net.client.results import NewTopic
from pk.net.kerberos import initiating

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
MISSING = r"pip install 'pk-client\[kerberos\]'"
LOGIN = "listener.name.clients.gssapi.sasl.jaas.config"


def by_keytab(keytab: Path, principal: str) -> str:
    return f'{MODULE} useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}";'


class Realm(NamedTuple):
    kdc: Kdc
    broker: str
    """The brokers' login."""
    alice: str
    """A client's."""
    tickets: Path
    """The tickets that kinit fetched for alice."""

    @property
    def keys(self) -> dict[str, Any]:
        return {
            "listeners": "CLIENTS://localhost:0",
            "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
            "inter.broker.listener.name": "CLIENTS",
            "sasl.kerberos.service.name": "kafka",
            LOGIN: self.broker,
        }

    def client(self, login: str | None = None, **more: str) -> dict[str, str]:
        """The keys of a client; `sasl.mechanism` is GSSAPI without being said, as Kafka's."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": self.alice if login is None else login,
            **more,
        }


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with running_kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        broker, alice = f"kafka/localhost@{REALM}", f"alice/laptop@{REALM}"
        keytab = kdc.keytab(alice)
        yield Realm(
            kdc,
            by_keytab(kdc.keytab(broker), broker),
            by_keytab(keytab, alice),
            kdc.tickets(alice, keytab),
        )


async def topics_of(address: str, keys: dict[str, str]) -> None:
    """Raises what a client gets that cannot log in."""
    with trio.fail_after(60):
        async with open_admin(address, keys) as admin:
            await admin.describe_cluster()


def test_keytabs_and_tickets_log_in(realm: Realm) -> None:
    @trio_test
    async def run() -> None:
        async with running_node(**realm.keys) as node:
            await topics_of(node.address, realm.client())
            cache = f'{MODULE} useTicketCache=true ticketCache="{realm.tickets}";'
            await topics_of(node.address, realm.client(cache))
            cache = f'{MODULE} useTicketCache=true serviceName="kafka";'
            with pytest.raises(KafkaError, match="no Kerberos ticket"):
                await topics_of(node.address, realm.client(cache))
            with pytest.raises(ClientConfigError, match="Conflicting serviceName"):
                other = realm.client(cache, **{"sasl.kerberos.service.name": "other"})
                await topics_of(node.address, other)

    run()


def test_a_client_is_who_its_ticket_says(realm: Realm) -> None:
    """The rules map it to a name; if no rule matches, the login is refused."""
    rules = "sasl.kerberos.principal.to.local.rules"
    acls: dict[str, Any] = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:kafka;User:ALICE",
    }

    @trio_test
    async def run() -> None:
        short: dict[str, Any] = {rules: "RULE:[2:$1-$2@$0](alice-.*)s/-.*//U,DEFAULT"}
        async with (
            running_node(**realm.keys, **acls, **short) as node,
            open_admin(node.address, realm.client()) as admin,
        ):
            made = await admin.create_topics([NewTopic("t", 1, 1)])
            assert "t" in made.ok
        nobody: dict[str, Any] = {rules: "RULE:[2:$1](kafka)"}
        async with running_node(**realm.keys, **nobody) as node:
            with pytest.raises(KafkaError) as refused:
                await topics_of(node.address, realm.client())
            assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED

    run()


def test_a_keytab_that_changed_lets_nobody_in(realm: Realm) -> None:
    """Tickets for the service cannot be read with another service's keys."""

    @trio_test
    async def run() -> None:
        principal = f"kafka/localhost@{REALM}"
        wrong = realm.kdc.folder / "wrong.keytab"
        shutil.copy(realm.kdc.folder / "kafka-localhost.keytab", wrong)
        keys = {**realm.keys, LOGIN: by_keytab(wrong, principal)}
        async with running_node(**keys) as node:
            await topics_of(node.address, realm.client())
            shutil.copy(realm.kdc.folder / "alice-laptop.keytab", wrong)
            with pytest.raises((KafkaError, ClientError)):
                await topics_of(node.address, realm.client())

    run()


def test_the_exchange_stops_at_anything_unexpected(realm: Realm) -> None:
    """Not a token; a token twice; data where nothing is due; a layer that is not offered."""

    async def refused(node: Any, *tokens: Any) -> None:
        login = KerberosLogin.parse(realm.alice)
        context = await trio.to_thread.run_sync(initiating, login, "kafka", "localhost")
        client = GssapiClient(context)
        async with caller_of(node) as caller:
            assert (await caller.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)).error_code == 0
            answer = b""
            for number, token in enumerate(tokens):
                data: Any = token(client, context, answer) if callable(token) else token
                response = await caller.call(SaslAuthenticateRequest(auth_bytes=data), 2)
                if number == len(tokens) - 1:
                    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
                    assert (
                        "invalid credentials with SASL mechanism GSSAPI" in response.error_message
                    )
                else:
                    assert response.error_code == 0
                    answer = bytes(response.auth_bytes)

    def good(client: GssapiClient, _: Any, answer: bytes) -> bytes:
        return client.step(answer)

    def confidential(_: Any, context: Any, __: bytes) -> bytes:
        return context.wrap(b"\x04\0\xff\xff")

    @trio_test
    async def run() -> None:
        async with running_node(**realm.keys) as node:
            await refused(node, b"")
            await refused(node, b"\x60\x82 no token at all")
            await refused(node, good, b"more")
            await refused(node, good, good, b"not wrapped")
            await refused(node, good, good, confidential)
            await topics_of(node.address, realm.client())

    run()


def test_tokens_without_a_header_after_the_first_handshake(realm: Realm) -> None:
    """Clients before 1.0 send them; Java's server then sends no last message."""

    @trio_test
    async def run() -> None:
        login = KerberosLogin.parse(realm.alice)
        context = await trio.to_thread.run_sync(initiating, login, "kafka", "localhost")
        client = GssapiClient(context)
        async with running_node(**realm.keys) as node, caller_of(node) as caller:
            assert (await caller.call(SaslHandshakeRequest(mechanism="GSSAPI"), 0)).error_code == 0
            token = client.step(b"")
            while True:
                await caller.stream.send_all(len(token).to_bytes(4, "big") + token)
                if client.complete:
                    break
                token = client.step(await caller.receive_frame())
            assert (await caller.call(MetadataRequest(), 12)).brokers

    run()


def test_brokers_log_in_at_each_other(realm: Realm) -> None:
    """At the controller and among themselves: a record that both replicas have."""
    principal = f"kafka/127.0.0.1@{REALM}"
    login = by_keytab(realm.kdc.keytab(principal), principal)
    keys: dict[str, Any] = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.plaintext.gssapi.sasl.jaas.config": login,
        "listener.name.controller.gssapi.sasl.jaas.config": login,
    }

    @trio_test
    async def run() -> None:
        async with running_cluster(2, **keys) as cluster:
            address = cluster.nodes[1].address
            async with open_admin(address, realm.client()) as admin:
                await admin.create_topics([NewTopic("t", 1, 2)])
            async with open_producer(address, {**realm.client(), "acks": "all"}) as producer:
                assert (await (await producer.send("t", b"to both"))).offset == 0

    run()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (LOGIN, f'{MODULE} useKeyTab=true keyTab="/missing" principal="kafka/h@R";', "be read"),
        (LOGIN, f"{MODULE} useTicketCache=true;", "a listener needs useKeyTab=true"),
        (LOGIN, f"{MODULE} useKeyTab=true;", "needs keyTab and principal"),
        (LOGIN, f"{MODULE} useKeyTab=true keyTab=a principal=b spin=c;", "the option spin"),
        ("sasl.kerberos.principal.to.local.rules", "RULE:[1:$1", "Invalid rule"),
    ],
)
def test_what_cannot_work_does_not_start(realm: Realm, key: str, value: str, said: str) -> None:
    @trio_test
    async def run() -> None:
        with pytest.RaisesGroup(pytest.RaisesExc(StartError, match=said), flatten_subgroups=True):
            async with running_node(**{**realm.keys, key: value}):
                pass

    run()


def test_without_the_library_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache's default for `sasl.enabled.mechanisms` is GSSAPI alone."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    keys: dict[str, Any] = {
        "listeners": "CLIENTS://localhost:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.kerberos.service.name": "kafka",
        LOGIN: by_keytab(Path("/dev/null"), "kafka/localhost@R"),
    }

    @trio_test
    async def run() -> None:
        missing = pytest.RaisesExc(StartError, match=MISSING)
        with pytest.RaisesGroup(missing, flatten_subgroups=True):
            async with running_node(**keys):
                pass
        client = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": f"{MODULE} useTicketCache=true;",
        }
        with pytest.raises(ClientConfigError, match=MISSING):
            await topics_of("localhost:1", client)

    run()


def over_tls(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Keys of a broker with a certificate, and of clients that trust it."""
    trust, server = folder / "ca.pem", folder / "server.pem"
    ca = authority()
    ca.write_trust(trust)
    ca.sign("CN=broker", "localhost").write(server)
    trusting = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(trust)}
    broker = {
        "listener.security.protocol.map": "CLIENTS:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server),
    }
    return broker | trusting, trusting | {"security.protocol": "SASL_SSL"}


def test_a_ticket_over_tls(realm: Realm, tmp_path: Path) -> None:
    """The broker's certificate must be known; without TLS there is no login."""
    tls, trusting = over_tls(tmp_path)

    @trio_test
    async def run() -> None:
        async with running_node(**{**realm.keys, **tls}) as node:
            await topics_of(node.address, realm.client(**trusting))
            with pytest.raises(ClientError, match="certificate"):
                await topics_of(node.address, realm.client(**{"security.protocol": "SASL_SSL"}))
            with pytest.raises(ClientError):
                await topics_of(node.address, realm.client())

    run()


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_kcat(realm: Realm, protocol: str, tmp_path: Path) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    tls: dict[str, Any] = {} if protocol == "SASL_PLAINTEXT" else over_tls(tmp_path)[0]
    keys = {
        "security.protocol": protocol,
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": str(realm.kdc.folder / "alice-laptop.keytab"),
        "sasl.kerberos.principal": f"alice/laptop@{REALM}",
        **({"ssl.ca.location": str(tmp_path / "ca.pem")} if tls else {}),
    }
    how = [word for key, value in keys.items() for word in ("-X", f"{key}={value}")]
    ran: CompletedProcess[bytes] | None = None

    @trio_test
    async def run() -> None:
        nonlocal ran
        async with running_node(**{**realm.keys, **tls}) as node:
            ran = await trio.run_process(
                ["kcat", "-b", node.address, *how, "-L", "-m", "60"],
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )

    run()
    assert ran is not None
    if b"is missing a GSSAPI module" in ran.stderr:
        pytest.skip("libsasl2-modules-gssapi-mit is not installed")
    assert b"broker 1 at localhost" in ran.stdout, ran.stderr.decode()
