"""No secret is in pk's output, traces, logs, answers or files: a broker and clients with a secret
of every kind, and a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import authority
from clients.pk_broker import PkBroker
from oauth_provider import AUDIENCE, CLIENT_ID, CLIENT_SECRET, Provider, running_provider

Run = Callable[..., Any]
LOGIN = "org.apache.kafka.common.security."
OF_BROKER = {
    "scram": "hush-scram-1",
    "plain": "hush-plain-2",
    "key": "hush-key-3",
    "token": "hush-token-4",
    "oauth": CLIENT_SECRET,
}
"""Secrets of the broker's own configuration."""
CHANGED, WRONG, NEW = "hush-changed-5", "hush-wrong-6", "hush-new-7"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secrets")


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def broker(folder: Path, provider: Provider) -> Iterator[PkBroker]:
    made = authority()
    made.write_trust(folder / "ca.pem")
    made.sign("CN=broker", "127.0.0.1").write(folder / "broker.pem", OF_BROKER["key"])
    own = "listener.name.clients"
    config = {
        "listeners": "CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        f"{own}.scram-sha-512.sasl.jaas.config": (
            f'{LOGIN}scram.ScramLoginModule required username="admin" '
            f'password="{OF_BROKER["scram"]}";'
        ),
        f"{own}.plain.sasl.jaas.config": (
            f'{LOGIN}plain.PlainLoginModule required user_alice="{OF_BROKER["plain"]}";'
        ),
        f"{own}.oauthbearer.sasl.jaas.config": (
            f'{LOGIN}oauthbearer.OAuthBearerLoginModule required clientId="{CLIENT_ID}"'
            f' clientSecret="{OF_BROKER["oauth"]}";'
        ),
        "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.key.password": OF_BROKER["key"],
        "delegation.token.secret.key": OF_BROKER["token"],
    }
    with PkBroker(config=config) as broker:
        yield broker


def test_a_search_finds_no_secret(
    pk: Run, broker: PkBroker, provider: Provider, folder: Path, tmp_path: Path
) -> None:
    trust = f"ssl.truststore.type=PEM\nssl.truststore.location={folder / 'ca.pem'}\n"
    said: list[str] = []

    def by(mechanism: str, jaas: str, *words: str, code: int = 0, stdin: bytes = b"") -> Any:
        file = folder / "client.properties"
        oauth = f"sasl.oauthbearer.token.endpoint.url={provider.token_url}\n"
        file.write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\n{trust}"
            f"{oauth if mechanism == 'OAUTHBEARER' else ''}sasl.jaas.config={LOGIN}{jaas};\n"
        )
        at = ("-b", broker.bootstrap, "--config-file", str(file))
        ran = pk(*words, *at, "--trace-json", "--debug", stdin=stdin)
        assert ran.code == code, (words, ran.err)
        said.append(ran.text + ran.err)
        return ran

    scram = 'scram.ScramLoginModule required username="admin" password="{}"'
    plain = 'plain.PlainLoginModule required username="alice" password="{}"'
    oauth = (
        f'oauthbearer.OAuthBearerLoginModule required clientId="{CLIENT_ID}" clientSecret="{{}}"'
    )
    admin = scram.format(OF_BROKER["scram"])
    for mechanism, login, secret in (
        ("SCRAM-SHA-512", scram, OF_BROKER["scram"]),
        ("PLAIN", plain, OF_BROKER["plain"]),
        ("OAUTHBEARER", oauth, OF_BROKER["oauth"]),
    ):
        by(mechanism, login.format(secret), "topics", "list")
        by(mechanism, login.format(WRONG), "topics", "list", code=4)
    by("SCRAM-SHA-512", admin, "configs", "describe", "broker", "1", "-a")
    key = "listener.name.clients.plain.sasl.jaas.config"
    changed = f'{key}={LOGIN}plain.PlainLoginModule required user_alice="{CHANGED}";'
    by("SCRAM-SHA-512", admin, "configs", "alter", "broker", "1", "-c", changed, "-y")
    by("SCRAM-SHA-512", admin, "configs", "describe", "broker", "1", "-f", "json")
    by("SCRAM-SHA-512", admin, "users", "add", "bob", "-d", stdin=NEW.encode())
    by("SCRAM-SHA-512", admin, "users", "tokens", "list", "-f", "json")
    by("SCRAM-SHA-512", admin, "doctor", "--fail-on", "never")
    by(
        "SCRAM-SHA-512",
        'scram.ScramLoginModule required password="hush-lonely-8"',
        "topics",
        "list",
        code=2,
    )

    everywhere = [*OF_BROKER.values(), WRONG, NEW, "hush-lonely-8"]
    kept = [
        path for path in tmp_path.rglob("*") if path.is_file() and path.name != "stdin"
    ]  # the user's config, state and cache: history, undo, names
    for secret in (*everywhere, CHANGED):
        assert not [text for text in said if secret in text], secret
        assert secret not in broker.log_text
        assert not [path for path in kept if secret.encode() in path.read_bytes()], secret
    # Secrets that were set while the broker ran are in the metadata log, as in Apache Kafka. No
    # other file on its disk has them.
    assert broker.stop() == 0  # it might replace files while they are read
    assert broker.directory is not None
    stored = [path for path in broker.directory.rglob("*") if path.is_file()]
    for secret in everywhere:
        assert not [path for path in stored if secret.encode() in path.read_bytes()], secret
