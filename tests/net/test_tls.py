"""TLS on real sockets: clients of others, pk's own, brokers among themselves, and peers that speak
something else."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
import trio
from certificates import DAY, Certificate, authority
from cryptography.hazmat.primitives.serialization import Encoding
from hostile.attack import BAD_KINDS
from msgspec.structs import replace
from nodes import Caller, caller_of, running_cluster, running_node, trio_test

import pk.net.node
from pk.core.api import index
from pk.core.api.topics import metadata
from pk.core.auth.principal import KafkaPrincipal
from pk.core.log.disk import RealDisk
from pk.core.wire.messages.api_versions import ApiVersionsRequest
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pk.core.wire.messages.metadata import MetadataRequest
from pk.net.client.admin import open_admin
from pk.net.client.config import AdminConfig, parse
from pk.net.client.consumer import open_consumer
from pk.net.client.errors import ClientError, ConfigError, ConnectFailed, Disconnected, NoBrokers
from pk.net.client.producer import open_producer
from pk.net.client.results import NewTopic
from pk.net.node import Node

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
ADMIN = 'username="admin" password="hush"'
CLIENT = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@dataclass(frozen=True)
class Files:
    """An authority, and certificates of it as PEM files."""

    authority: Certificate
    directory: Path

    @property
    def trust(self) -> str:
        return str(self.directory / "ca.pem")

    @property
    def server(self) -> str:
        return str(self.directory / "server.pem")

    @property
    def client(self) -> str:
        return str(self.directory / "client.pem")

    def make(self, host: str = "127.0.0.1") -> None:
        self.authority.write_trust(Path(self.trust))
        self.authority.sign("CN=server", host).write(Path(self.server))
        self.authority.sign("CN=alice,O=example").write(Path(self.client))

    def spoil(self) -> None:
        """Leave nothing of use in the server's file."""
        Path(self.server).write_text("nothing")

    def broker(self, protocol: str = "SSL", **keys: str) -> dict[str, Any]:
        """The keys of a broker with one listener."""
        given = {
            "listeners": "CLIENTS://127.0.0.1:0",
            "listener.security.protocol.map": f"CLIENTS:{protocol}",
            "inter.broker.listener.name": "CLIENTS",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.server,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trust,
        }
        if protocol == "SASL_SSL":
            given |= {
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.clients.plain.sasl.jaas.config": (
                    f'{PLAIN} {ADMIN} user_admin="hush";'
                ),
            }
        return given | {name.replace("__", "."): value for name, value in keys.items()}

    def pk(self, protocol: str = "SSL", *, certificate: bool = False) -> dict[str, str]:
        """The keys of a client of pk's."""
        given = {
            "security.protocol": protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trust,
        }
        if certificate:
            given |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.client}
        if protocol == "SASL_SSL":
            given |= {
                "sasl.mechanism": "PLAIN",
                "sasl.username": "admin",
                "sasl.password": "hush",
            }
        return given


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(authority(), tmp_path)
    made.make()
    return made


@asynccontextmanager
async def secured(files: Files, protocol: str = "SSL", **keys: str) -> AsyncIterator[Node]:
    async with running_node(**files.broker(protocol, **keys)) as node:
        yield node


# --- clients of others ---


def by_librdkafka(address: str, files: Files, protocol: str) -> None:
    how: dict[str, Any] = {
        "bootstrap.servers": address,
        "security.protocol": protocol,
        "ssl.ca.location": files.trust,
        "ssl.certificate.location": files.client,
        "ssl.key.location": files.client,
    }
    if protocol == "SASL_SSL":
        how |= {"sasl.mechanism": "PLAIN", "sasl.username": "admin", "sasl.password": "hush"}
    failed: list[object] = []
    producer = confluent_kafka.Producer(how)
    producer.produce("t", b"librdkafka" * 50_000, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(60) == 0 and failed == [None]
    consumer = confluent_kafka.Consumer(
        {**how, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["t"])
    message = consumer.poll(60)
    assert message is not None and message.value() == b"librdkafka" * 50_000
    consumer.close()


def context_of(files: Files) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.trust)
    context.load_cert_chain(files.client)
    return context


def by_kafka_python(address: str, files: Files, protocol: str) -> None:
    how: dict[str, Any] = {
        "bootstrap_servers": address,
        "security_protocol": protocol,
        "ssl_context": context_of(files),
    }
    if protocol == "SASL_SSL":
        how |= {
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "admin",
            "sasl_plain_password": "hush",
        }
    producer = kafka.KafkaProducer(**how)
    producer.send("t", b"kafka-python").get(60)
    producer.close()
    consumer = kafka.KafkaConsumer(
        "t", **how, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    assert next(consumer).value == b"kafka-python"
    consumer.close()


def by_aiokafka(address: str, files: Files, protocol: str) -> None:
    import asyncio

    how: dict[str, Any] = {
        "bootstrap_servers": address,
        "security_protocol": protocol,
        "ssl_context": context_of(files),
    }
    if protocol == "SASL_SSL":
        how |= {
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "admin",
            "sasl_plain_password": "hush",
        }

    async def main() -> None:
        async with aiokafka.AIOKafkaProducer(**how) as producer:
            await producer.send_and_wait("t", b"aiokafka")
        consumer = aiokafka.AIOKafkaConsumer("t", **how, auto_offset_reset="earliest")
        async with consumer:
            message = await asyncio.wait_for(consumer.getone(), 60)
            assert message.value == b"aiokafka"

    asyncio.run(main())


def by_kcat(address: str, files: Files, protocol: str) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    keys = {
        "security.protocol": protocol,
        "ssl.ca.location": files.trust,
        "ssl.certificate.location": files.client,
        "ssl.key.location": files.client,
    }
    if protocol == "SASL_SSL":
        keys |= {"sasl.mechanism": "PLAIN", "sasl.username": "admin", "sasl.password": "hush"}
    how = [word for key, value in keys.items() for word in ("-X", f"{key}={value}")]
    words = ["kcat", "-b", address, *how, "-t", "t", "-p", "0"]
    subprocess.run([*words, "-P"], input=b"kcat", check=True, timeout=60)
    read = subprocess.run(
        [*words, "-C", "-o", "beginning", "-e", "-q", "-m", "60"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert read.stdout == b"kcat\n"


async def by_pk(address: str, files: Files, protocol: str) -> None:
    keys = files.pk(protocol, certificate=True)
    value = b"pk" * 400_000
    async with open_producer(address, {**keys, "max.request.size": 2_000_000}) as producer:
        await (await producer.send("t", value))
    reading = {**keys, "auto.offset.reset": "earliest", "group.id": "g"}
    async with open_consumer(address, reading) as consumer:
        consumer.subscribe(["t"])
        async for record in consumer:
            assert record.value == value
            break


@pytest.mark.parametrize(
    ("protocol", "auth"),
    [("SSL", "none"), ("SSL", "required"), ("SASL_SSL", "none"), ("SASL_SSL", "required")],
)
@pytest.mark.parametrize("client", [by_librdkafka, by_kafka_python, by_aiokafka, by_kcat, by_pk])
def test_clients_produce_and_consume(
    client: Callable[[str, Files, str], Any], protocol: str, auth: str, files: Files, tmp_path: Path
) -> None:
    @trio_test
    async def run() -> None:
        keys = {"listener__name__clients__ssl__client__auth": auth}
        given = files.broker(protocol, **keys, directory="", message__max__bytes="2000000")
        del given["directory"]
        # On a real disk: slices of files are what a plain socket would get by sendfile.
        async with running_node(RealDisk(), directory=str(tmp_path / "data"), **given) as node:
            async with open_admin(node.address, files.pk(protocol, certificate=True)) as admin:
                await admin.create_topics([NewTopic("t", 1, 1)])
            if client is by_pk:
                await by_pk(node.address, files, protocol)
            else:
                await trio.to_thread.run_sync(client, node.address, files, protocol)

    run()


# --- who a peer is ---


@asynccontextmanager
async def principals(
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[list[KafkaPrincipal]]:
    """The principals of the requests for metadata."""
    seen: list[KafkaPrincipal] = []

    def spy(context: Any, request: Any) -> Any:
        seen.append(context.principal)
        return metadata.handle(context, request)

    apis = [replace(a, handle=spy) if a.key == MetadataRequest.API_KEY else a for a in index.APIS]
    monkeypatch.setattr(pk.net.node, "apis_of", lambda _: apis)
    yield seen


@pytest.mark.parametrize(
    ("rules", "auth", "certificate", "name"),
    [
        ("DEFAULT", "required", True, "CN=alice,O=example"),
        ("RULE:^CN=(.*?),.*$/$1/U,DEFAULT", "required", True, "ALICE"),
        ("RULE:^CN=(?<n>[a-z&&[^x]]+),.*$/${n}/", "required", True, "alice"),
        ("DEFAULT", "requested", True, "CN=alice,O=example"),
        ("DEFAULT", "requested", False, "ANONYMOUS"),
        ("DEFAULT", "none", True, "ANONYMOUS"),
    ],
)
def test_the_principal_of_a_certificate(
    rules: str,
    auth: str,
    certificate: bool,
    name: str,
    files: Files,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @trio_test
    async def run() -> None:
        keys = {
            "ssl__client__auth": auth,
            "ssl__principal__mapping__rules": "RULE:.*/the broker's/",
            "listener.name.clients.ssl.principal.mapping.rules": rules,
        }
        async with principals(monkeypatch) as seen, secured(files, **keys) as node:
            how = files.pk(certificate=certificate)
            async with open_admin(node.address, how) as admin:
                await admin.list_topics()
            assert set(seen) == {KafkaPrincipal("User", name)}

    run()


async def failure(address: str, keys: dict[str, str]) -> str:
    """Why a client cannot be served."""
    with pytest.raises(ClientError) as failed:
        async with open_admin(address, {**keys, "default.api.timeout.ms": "60000"}) as admin:
            await admin.list_topics()
    assert isinstance(failed.value, NoBrokers | ConnectFailed | Disconnected), failed.value
    return str(failed.value)


async def refusal(address: str, keys: dict[str, str]) -> str:
    """Why the server ends TLS. In TLS 1.3 a client has sent its first request by then: the reset of
    the connection can overtake the alert that says why, and the client knows no more."""
    while True:
        said = await failure(address, keys)
        if not re.search("reset|[Bb]roken pipe", said):
            return said


def test_a_certificate_that_is_required_and_missing(files: Files, tmp_path: Path) -> None:
    stranger = Files(authority("CN=Other"), tmp_path / "other")
    stranger.directory.mkdir()
    stranger.make()

    @trio_test
    async def run() -> None:
        async with secured(files, ssl__client__auth="required") as node:
            assert "ssl.keystore.location" in await refusal(node.address, files.pk())
            keys = {**files.pk(certificate=True), "ssl.keystore.location": stranger.client}
            assert "ssl.keystore.location" in await refusal(node.address, keys)
            assert "not trusted" in await failure(node.address, stranger.pk())

    run()


def test_a_certificate_that_has_expired(files: Files) -> None:
    files.authority.sign("CN=alice", days=-1).write(Path(files.client))

    @trio_test
    async def run() -> None:
        async with secured(files, ssl__client__auth="required") as node:
            said = await refusal(node.address, files.pk(certificate=True))
            assert said.endswith(
                f"{node.address}: this client's certificate has expired or is revoked "
                "(ssl.keystore.location)"
            )
            assert "as a Kafka broker" not in said
        files.authority.sign("CN=server", "127.0.0.1", days=-1).write(Path(files.server))
        async with secured(files) as node:
            said = await failure(node.address, files.pk())
            assert "its certificate, or that of its CA, has expired; renew it" in said
            assert "ssl.truststore.location" not in said

    run()


def test_a_broker_with_a_certificate_whose_dates_are_wrong_starts_and_warns(
    files: Files, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pk.net.tls.contexts.FILES_CHECKED_S", -1.0)

    expired = files.authority.sign("CN=server", "127.0.0.1", days=-2)
    early = files.authority.sign("CN=server", "127.0.0.1", begins=2 * DAY)
    named = f"Listener CLIENTS: the certificate in {files.server} (ssl.keystore.location)"
    verified = "; clients and brokers that verify it cannot connect"

    @trio_test
    async def run() -> None:
        async with secured(files) as node:
            assert await certificate_of(node)
            assert not logged(caplog, "Listener CLIENTS: the certificate")
            expired.write(Path(files.server))
            assert await certificate_of(node)
            end = f"{expired.certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
            assert logged(caplog, f"{named} expired on {end}{verified}")
        early.write(Path(files.server))
        async with secured(files):
            begin = f"{early.certificate.not_valid_before_utc:%Y-%m-%d %H:%M:%S} UTC"
            assert logged(caplog, f"{named} is not valid before {begin}{verified}")
        keys: dict[str, Any] = files.broker() | {
            "ssl.keystore.key": early.key_pem(),
            "ssl.keystore.certificate.chain": early.pem,
        }
        del keys["ssl.keystore.location"]
        async with running_node(**keys):
            assert logged(caplog, "the certificate in ssl.keystore.certificate.chain is not valid")

    run()


def test_a_host_that_the_certificate_does_not_name(files: Files) -> None:
    files.make(host="elsewhere.example")

    @trio_test
    async def run() -> None:
        async with secured(files) as node:
            said = await failure(node.address, files.pk())
            assert "not valid for '127.0.0.1'" in said
            assert "ssl.endpoint.identification.algorithm" in said
            keys = {**files.pk(), "ssl.endpoint.identification.algorithm": ""}
            async with open_admin(node.address, keys) as admin:
                assert await admin.list_topics() == ()

    run()


# --- peers that speak something else ---


def logged(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [r.getMessage() for r in caplog.records if words in r.getMessage()]


def test_plaintext_to_a_tls_listener(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    @trio_test
    async def run() -> None:
        async with secured(files) as node:
            async with caller_of(node) as caller:
                await caller.send(CLIENT, 3)
                assert await caller.at_end()
            assert "connected, but it does not answer" in await failure(node.address, {})

    run()
    assert logged(caplog, "it does not speak TLS, but this listener requires it")


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_tls_to_a_plaintext_listener(
    protocol: str, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    @trio_test
    async def run() -> None:
        given = files.broker("SASL_SSL")
        given["listener.security.protocol.map"] = f"CLIENTS:{protocol}"
        async with running_node(**given) as node:
            assert "in the TLS handshake" in await failure(node.address, files.pk())

    run()
    assert logged(caplog, "it speaks TLS, but this listener does not")


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x00\x05hello", b"GET / HTTP/1.1\r\n\r\n", b"\0"])
def test_what_is_no_handshake_is_closed(data: bytes, files: Files) -> None:
    @trio_test
    async def run() -> None:
        async with secured(files) as node, caller_of(node) as caller:
            await caller.stream.send_all(data)
            while True:
                try:
                    if not await caller.stream.receive_some():
                        break
                except trio.BrokenResourceError:
                    break
            async with open_admin(node.address, files.pk()) as admin:
                assert await admin.list_topics() == ()

    run()


def test_who_never_finishes_the_handshake_is_closed(files: Files) -> None:
    @trio_test
    async def run() -> None:
        async with (
            secured(files, pk__authentication__timeout__ms="200") as node,
            caller_of(node) as silent,
            caller_of(node) as half,
        ):
            await half.stream.send_all(b"\x16\x03\x01\x02\x00\x01\x00\x01")
            assert await silent.at_end()
            assert await half.at_end()

    run()


# --- stores that are replaced ---


async def certificate_of(node: Node) -> bytes:
    """The certificate that a new connection sees."""
    stream = await trio.open_ssl_over_tcp_stream(
        "127.0.0.1", int(node.address.rpartition(":")[2]), ssl_context=_any()
    )
    async with stream:
        await stream.do_handshake()
        found = stream.getpeercert(binary_form=True)
        assert found is not None
        return found


def _any() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def test_a_new_certificate_drops_no_connection(
    files: Files, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pk.net.tls.contexts.FILES_CHECKED_S", -1.0)

    @trio_test
    async def run() -> None:
        async with secured(files) as node:
            stream = await trio.open_ssl_over_tcp_stream(
                "127.0.0.1", int(node.address.rpartition(":")[2]), ssl_context=_any()
            )
            caller = Caller(stream)  # type: ignore[arg-type]
            assert (await caller.call(MetadataRequest(), 12)).brokers
            first = await certificate_of(node)
            files.authority.sign("CN=second", "127.0.0.1").write(Path(files.server))
            second = await certificate_of(node)
            assert first != second
            files.spoil()
            assert await certificate_of(node) == second, "a slip leaves the old keys in force"
            assert (await caller.call(MetadataRequest(), 12)).brokers
            third = files.authority.sign("CN=third", "127.0.0.1")
            other = third.write(Path(files.server).with_name("third.pem"))
            request = IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=4,
                        resource_name="1",
                        configs=[
                            AlterableConfig(
                                name="listener.name.clients.ssl.keystore.location",
                                value=str(other),
                            )
                        ],
                    )
                ]
            )
            answer = await caller.call(request, 1)
            assert answer.responses[0].error_code == 0, answer
            der = third.certificate.public_bytes(Encoding.DER)
            while await certificate_of(node) != der:
                pass
            assert (await caller.call(MetadataRequest(), 12)).brokers
            await trio.aclose_forcefully(stream)

    run()
    assert logged(caplog, "TLS files not reloaded")


# --- brokers among themselves ---


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_brokers_meet_by_tls(protocol: str, files: Files) -> None:
    """Also at the controller's listener, with certificates on both sides."""

    @trio_test
    async def run() -> None:
        keys = files.broker(protocol)
        del keys["listeners"]
        keys |= {
            "listener.security.protocol.map": f"PLAINTEXT:{protocol},CONTROLLER:{protocol}",
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.client.auth": "required",
            "sasl.mechanism.controller.protocol": "PLAIN",
        }
        for listener in ("plaintext", "controller"):
            name = f"listener.name.{listener}.plain.sasl.jaas.config"
            keys[name] = f'{PLAIN} {ADMIN} user_admin="hush";'
        keys.pop("listener.name.clients.plain.sasl.jaas.config", None)
        async with running_cluster(2, **keys) as cluster:
            address = cluster.nodes[1].address
            how = files.pk(protocol, certificate=True)
            async with open_admin(address, how) as admin:
                await admin.create_topics([NewTopic("t", 2, 2)])
            async with open_producer(address, {**how, "acks": "all"}) as producer:
                for partition in (0, 1):
                    sent = await producer.send("t", b"copied", partition=partition)
                    assert (await sent).offset == 0

    run()


def test_a_key_that_cannot_be_read_keeps_the_broker_from_starting(files: Files) -> None:
    from pk.core.broker.node_lifecycle import StartError

    @trio_test
    async def run() -> None:
        for keys, said in (
            ({"ssl.keystore.location": "/none"}, "listener CLIENTS: /none cannot be read"),
            ({"ssl.keystore.location": ""}, "ssl.keystore.location"),
            ({"ssl.principal.mapping.rules": "RULE:x"}, "Invalid rule"),
        ):
            with pytest.RaisesGroup(
                pytest.RaisesExc(StartError, match=said), flatten_subgroups=True
            ):
                async with running_node(**{**files.broker(), **keys}):
                    pass

    run()


@trio_test
async def test_noise_through_tls_ends_its_connection_and_nobody_else_s(tmp_path: Path) -> None:
    files = Files(authority(), tmp_path)
    files.make()
    chance = Random(3)
    async with secured(files) as node:
        host, _, port = node.address.rpartition(":")

        async def connected() -> trio.SSLStream[trio.SocketStream]:
            context = ssl.create_default_context(cafile=files.trust)
            context.load_cert_chain(files.client)
            context.check_hostname = False
            stream = await trio.open_tcp_stream(host, int(port))
            secure = trio.SSLStream(stream, context)
            await secure.do_handshake()
            return secure

        for kind in (*BAD_KINDS, *BAD_KINDS):
            bad = await connected()
            async with bad:
                await bad.send_all(kind(chance))
        async with open_admin(node.address, files.pk(certificate=True)) as admin:
            assert (await admin.describe_cluster()).brokers


@trio_test
async def test_a_program_can_bring_a_context_of_its_own(files: Files) -> None:
    trusting = ssl.create_default_context(cafile=files.trust)
    async with secured(files) as node:
        config = {"security.protocol": "SSL", "ssl.context": trusting}
        async with open_admin(node.address, config) as admin:
            assert (await admin.describe_cluster()).brokers
        config["ssl.context"] = ssl.create_default_context()  # it does not know our authority
        async with open_admin(node.address, config) as admin:
            with pytest.raises(NoBrokers, match="not trusted"):
                await admin.describe_cluster()


def test_a_context_replaces_the_keys_of_tls(files: Files) -> None:
    context = ssl.create_default_context()
    both = {"ssl.context": context, "ssl.truststore.location": files.trust}
    with pytest.raises(ConfigError, match=r"ssl\.context replaces ssl\.truststore\.location"):
        parse(AdminConfig, both)
    with pytest.raises(ConfigError, match="only a program can pass"):
        parse(AdminConfig, {"ssl.context": "default"})
