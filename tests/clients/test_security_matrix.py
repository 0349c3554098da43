"""Every security protocol with every SASL mechanism: clients produce and consume, on pk and on
Apache Kafka.

Java's clients and pk's go every way; each of the others goes one way in the everyday run against
Apache Kafka, and every way it supports in the slow one, which also has the clients and tools of the
three releases of Apache Kafka before this one.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from oauth_provider import Provider, running_provider

from clients import apache_kafka
from clients.apache_kafka import java_command
from clients.franz_go import build_franz
from clients.secured import TOPIC, Secured, secured_broker
from clients.secured_clients import CLIENTS, Client, by_franz_go, supports
from clients.topics import wait_until
from pk.net.client.consumer import open_consumer
from pk.net.client.producer import open_producer

pytestmark = pytest.mark.peer

OLDER_RELEASES = ("4.0.2", "4.1.2", "4.2.1")
ONE_WAY = "SASL_SSL SCRAM-SHA-512"
"""The way that each client goes in the everyday run."""


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(scope="module", params=["pk", "apache"])
def secured(
    request: pytest.FixtureRequest, provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    with secured_broker(request.param, provider, tmp_path_factory.mktemp("secured")) as secured:
        yield secured


def java_goes_every_way(secured: Secured, libs: Path | None = None) -> None:
    """Run the clients of this release, or of the release whose jars are given."""
    words = [TOPIC]
    for number, (name, keys) in enumerate(secured.ways.items()):
        path = secured.folder / f"client-{number}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        words += [name, str(path)]
        if name.startswith("SASL_SSL SCRAM"):
            words += [f"token:{name}", str(path)]
    program = str(Path(__file__).with_name("SecurityMatrix.java"))
    command = java_command(program, *words, libs=libs)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    said = dict(line.split("\t") for line in ran.stdout.splitlines() if "\t" in line)
    assert set(said.values()) == {"OK"} and len(said) == 12, (said, ran.stderr[-3000:])


def test_javas_clients_produce_and_consume_every_way(secured: Secured) -> None:
    java_goes_every_way(secured)


@pytest.mark.slow
@pytest.mark.parametrize("release", OLDER_RELEASES)
def test_older_javas_clients_and_tools(secured: Secured, release: str) -> None:
    if (reason := apache_kafka.available()) is not None:
        pytest.skip(reason)
    libs = apache_kafka.older_jars(release)
    java_goes_every_way(secured, libs)
    keys = secured.ways[ONE_WAY]
    config = secured.folder / "old-tool.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    at = ("--bootstrap-server", keys["bootstrap.servers"], "--command-config", str(config))

    def tool(name: str, *words: str, input: str = "") -> str:
        command = java_command(f"org.apache.kafka.tools.{name}", *words, libs=libs)
        ran = subprocess.run(
            command, input=input, capture_output=True, text=True, timeout=300, check=False
        )
        assert ran.returncode == 0, (name, ran.stdout, ran.stderr)
        return ran.stdout

    topic = f"of-{release}"
    tool("TopicCommand", *at, "--create", "--topic", topic, "--partitions", "1")
    there = ("--bootstrap-server", keys["bootstrap.servers"], "--topic", topic)
    tool("ConsoleProducer", *there, "--producer.config", str(config), input="one\ntwo\n")
    read = ("--consumer.config", str(config), "--from-beginning", "--max-messages", "2")
    assert tool("consumer.ConsoleConsumer", *there, *read).endswith("one\ntwo\n")
    assert topic in tool("TopicCommand", *at, "--list").splitlines()
    group = ("--group", topic, "--topic", topic, "--timeout", "120000")
    reset = ("--reset-offsets", "--to-earliest", "--execute")
    assert topic in tool("consumer.group.ConsumerGroupCommand", *at, *group, *reset)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_of_others_goes_one_way(secured: Secured, name: str) -> None:
    goes(secured, name, CLIENTS[name], "SASL_SSL PLAIN" if name == "kcat" else ONE_WAY)


@pytest.mark.slow
def test_clients_of_others_go_every_way(secured: Secured, tmp_path: Path) -> None:
    clients = CLIENTS | {"franz-go": by_franz_go(build_franz(tmp_path))}
    went = [
        f"{name}: {way}"
        for name, client in clients.items()
        for way, keys in secured.ways.items()
        if supports(name, secured.kind, keys) and goes(secured, name, client, way)
    ]
    assert len(went) == (48 if secured.kind == "pk" else 44), "kcat lacks some"


def goes(secured: Secured, name: str, client: Client, way: str) -> bool:
    client(secured, secured.ways[way], f"{name} {way}".replace(" ", "-"))
    return True


def test_pk_produces_and_consumes_every_way(secured: Secured) -> None:
    async def by_pk(name: str, keys: dict[str, str]) -> None:
        given = dict(keys)
        bootstrap = given.pop("bootstrap.servers")
        async with open_producer(bootstrap, given) as producer:
            await (await producer.send(TOPIC, name.encode()))
        group = {"group.id": f"g-{name}", "auto.offset.reset": "earliest"}
        async with open_consumer(bootstrap, {**given, **group}) as consumer:
            consumer.subscribe([TOPIC])
            async for record in consumer:
                if record.value == name.encode():
                    return

    async def main() -> None:
        for name, keys in secured.ways.items():
            with trio.fail_after(120):
                await by_pk(f"pk {name}", keys)

    trio.run(main)


def test_apaches_tool_for_tokens(secured: Secured) -> None:
    keys = secured.ways["SASL_SSL SCRAM-SHA-512"]
    path = secured.folder / "tool.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    tool = "org.apache.kafka.tools.DelegationTokenCommand"
    at = ("--bootstrap-server", keys["bootstrap.servers"], "--command-config", str(path))
    made = apache_kafka.run_tool(
        tool, *at, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
    )
    assert made.returncode == 0, made.stderr
    row = made.stdout.strip().splitlines()[-1].split()
    token_id, hmac = row[0], row[1]
    assert row[2:5] == ["User:alice", "User:alice", "[User:bob]"]

    def listed() -> bool:
        """Owners and renewers count. A broker knows of a token a moment later."""
        seen = apache_kafka.run_tool(tool, *at, "--describe", "--owner-principal", "User:bob")
        return token_id in seen.stdout

    wait_until("the token", listed)
    ended = apache_kafka.run_tool(
        tool, *at, "--expire", "--expiry-time-period", "-1", "--hmac", hmac
    )
    assert ended.returncode == 0, ended.stderr
    gone = apache_kafka.run_tool(tool, *at, "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    assert "DelegationTokenNotFoundException" in gone.stdout + gone.stderr
