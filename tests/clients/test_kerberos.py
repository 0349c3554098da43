"""GSSAPI between pk and Apache Kafka, with a real KDC: Java's client and pk's on either broker."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
from kdc import REALM, running_kdc

from clients import apache_kafka
from clients.apache_kafka import ApacheKafka, free_ports, java_command
from clients.pk_broker import PkBroker
from pk.net.client.admin import open_admin
from pk.net.client.consumer import open_consumer
from pk.net.client.producer import open_producer
from pk.net.client.results import NewTopic

pytestmark = pytest.mark.peer

TOPIC = "kerberised"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"


class Kerberised(NamedTuple):
    """A broker whose listener takes GSSAPI, and a client's keys."""

    bootstrap: str
    client: dict[str, str]
    folder: Path


@pytest.fixture(scope="module", params=["pk", "apache"])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kerberised]:
    if (reason := apache_kafka.available()) is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("kdc")
    with running_kdc(folder) as kdc, pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={folder}/krb5.conf")

        def login(principal: str) -> str:
            keytab = kdc.keytab(principal)
            return f'{MODULE} keyTab="{keytab}" principal="{principal}@{REALM}";'

        plaintext, controller, port = free_ports(3)
        own = f"BARE://localhost:{port}"
        keys = {
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,BARE:SASL_PLAINTEXT"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1](ali.*)s/i/1/g,DEFAULT",
            "listener.name.bare.gssapi.sasl.jaas.config": login("kafka/localhost"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:al1ce",
        }
        client = {
            "bootstrap.servers": f"localhost:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": login("alice"),
        }
        if request.param == "pk":
            listeners = (
                f"PLAINTEXT://127.0.0.1:{plaintext},CONTROLLER://127.0.0.1:{controller},{own}"
            )
            keys |= {"listeners": listeners, "controller.listener.names": "CONTROLLER"}
            with PkBroker(config=keys):
                yield Kerberised(f"127.0.0.1:{plaintext}", client, folder)
            return
        kafka = ApacheKafka(properties=keys)
        kafka.properties["listeners"] = f"{kafka.server_properties(1)['listeners']},{own}"
        kafka.properties["advertised.listeners"] = f"PLAINTEXT://{kafka.bootstrap},{own}"
        with kafka:
            yield Kerberised(kafka.bootstrap, client, folder)


def test_keytabs_log_in(broker: Kerberised) -> None:
    """Only the user that the rules make of alice has rights."""
    given = dict(broker.client)
    bootstrap = given.pop("bootstrap.servers")

    async def by_pk() -> None:
        with trio.fail_after(120):
            async with open_admin(bootstrap, given) as admin:
                await admin.create_topics([NewTopic(TOPIC, 1, 1)])
            async with open_producer(bootstrap, given) as producer:
                await (await producer.send(TOPIC, b"by pk"))
            group = {"group.id": "g", "auto.offset.reset": "earliest"}
            async with open_consumer(bootstrap, {**given, **group}) as consumer:
                consumer.subscribe([TOPIC])
                async for record in consumer:
                    assert record.value == b"by pk"
                    return

    trio.run(by_pk)
    path = broker.folder / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in broker.client.items()))
    program = str(Path(__file__).with_name("SecurityMatrix.java"))
    ran = subprocess.run(
        java_command(program, TOPIC, "java", str(path)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.stdout == "java\tOK\n", (ran.stdout, ran.stderr[-3000:])
