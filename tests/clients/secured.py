"""A broker with a listener of each kind, pk's or Apache's: the same keys configure both, and Java's
clients and pk's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
from certificates import authority
from oauth_provider import AUDIENCE, CLIENT_ID, CLIENT_SECRET, ISSUER, Provider

from clients import apache_kafka
from clients.apache_kafka import ApacheKafka, free_ports
from clients.pk_broker import PkBroker
from pk.core.auth.scram import Mechanism
from pk.net.client.admin import open_admin
from pk.net.client.admin_operations.users import NewPassword
from pk.net.client.results import NewTopic

TOPIC = "secured"
PREFIX = "org.apache.kafka.common.security."
PLAIN_LOGIN = f'{PREFIX}plain.PlainLoginModule required username="alice" password="wonder"'
SCRAM_LOGIN = f'{PREFIX}scram.ScramLoginModule required username="alice" password="wonder"'
OAUTH_LOGIN = f"{PREFIX}oauthbearer.OAuthBearerLoginModule required"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TOOL = f"{PREFIX}oauthbearer."


class Secured(NamedTuple):
    """A broker with a listener of each kind."""

    kind: str
    """`pk` or `apache`."""
    plaintext: str
    ways: dict[str, dict[str, str]]
    """Name → the keys of a client."""
    folder: Path
    provider: Provider


def broker_keys(folder: Path, provider: Provider, ports: Mapping[str, int]) -> dict[str, str]:
    """The settings of both brokers, except the controller's address."""
    made = authority()
    made.write_trust(folder / "ca.pem")
    made.sign("CN=broker", "127.0.0.1").write(folder / "broker.pem")
    made.sign("CN=alice,O=example").write(folder / "alice.pem")
    keys = {
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,MUTUAL:SSL,BARE:SASL_PLAINTEXT,BOTH:SASL_SSL"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "delegation.token.secret.key": "shared",
    }
    for listener in ("bare", "both"):
        own = f"listener.name.{listener}"
        keys |= {
            f"{own}.plain.sasl.jaas.config": f'{PLAIN_LOGIN} user_alice="wonder";',
            f"{own}.scram-sha-256.sasl.jaas.config": f"{PREFIX}scram.ScramLoginModule required;",
            f"{own}.scram-sha-512.sasl.jaas.config": f"{PREFIX}scram.ScramLoginModule required;",
            f"{own}.oauthbearer.sasl.jaas.config": f"{OAUTH_LOGIN};",
            f"{own}.oauthbearer.sasl.server.callback.handler.class": (
                f"{TOOL}OAuthBearerValidatorCallbackHandler"
            ),
        }
    return keys


def listeners(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def ways_of(
    folder: Path, provider: Provider, ports: Mapping[str, int]
) -> dict[str, dict[str, str]]:
    """The keys of a client for each way in."""
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    logins = {
        "PLAIN": {"sasl.jaas.config": f"{PLAIN_LOGIN};"},
        "SCRAM-SHA-256": {"sasl.jaas.config": f"{SCRAM_LOGIN};"},
        "SCRAM-SHA-512": {"sasl.jaas.config": f"{SCRAM_LOGIN};"},
        "OAUTHBEARER": {
            "sasl.jaas.config": (
                f'{OAUTH_LOGIN} clientId="{CLIENT_ID}" clientSecret="{CLIENT_SECRET}";'
            ),
            "sasl.login.callback.handler.class": f"{TOOL}OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        },
    }
    key = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / "alice.pem")}
    ways = {
        "SSL": ("TLS", {"security.protocol": "SSL", **trust}),
        "mutual TLS": ("MUTUAL", {"security.protocol": "SSL", **trust, **key}),
    }
    for mechanism, login in logins.items():
        said = {"sasl.mechanism": mechanism, **login}
        bare = {"security.protocol": "SASL_PLAINTEXT", **said}
        ways[f"SASL_PLAINTEXT {mechanism}"] = ("BARE", bare)
        ways[f"SASL_SSL {mechanism}"] = ("BOTH", {"security.protocol": "SASL_SSL", **trust, **said})
    return {
        name: {"bootstrap.servers": f"127.0.0.1:{ports[listener]}", **keys}
        for name, (listener, keys) in ways.items()
    }


async def prepare(bootstrap: str) -> None:
    """The topic, and alice's passwords for SCRAM."""
    async with open_admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(TOPIC, 1, 1)])
        for mechanism in Mechanism:
            change = NewPassword("alice", mechanism, "wonder", 4096)
            assert not (await admin.set_passwords([change])).errors


@contextmanager
def secured_broker(kind: str, provider: Provider, folder: Path) -> Iterator[Secured]:
    """`kind` is pk or apache."""
    names = ("PLAINTEXT", "CONTROLLER", "TLS", "MUTUAL", "BARE", "BOTH")
    ports: dict[str, int] = dict(zip(names, free_ports(len(names)), strict=True))
    keys = broker_keys(folder, provider, ports)
    ways = ways_of(folder, provider, ports)
    with pytest.MonkeyPatch.context() as patch:
        # Java asks no provider that is not named there.
        allowed = f"{provider.jwks_url},{provider.token_url}"
        option = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}"
        patch.setenv("JAVA_TOOL_OPTIONS", option)
        if kind == "pk":
            keys |= {"listeners": listeners(ports), "controller.listener.names": "CONTROLLER"}
            with PkBroker(config=keys):
                plaintext = f"127.0.0.1:{ports['PLAINTEXT']}"
                trio.run(prepare, plaintext)
                yield Secured(kind, plaintext, ways, folder, provider)
            return
        if (reason := apache_kafka.available()) is not None:
            pytest.skip(reason)
        kafka = ApacheKafka(properties=keys)
        usual = kafka.server_properties(1)["listeners"]
        more = {name: ports[name] for name in names[2:]}
        kafka.properties["listeners"] = f"{usual},{listeners(more)}"
        kafka.properties["advertised.listeners"] = (
            f"PLAINTEXT://{kafka.bootstrap},{listeners(more)}"
        )
        with kafka:
            trio.run(prepare, kafka.bootstrap)
            yield Secured(kind, kafka.bootstrap, ways, folder, provider)
