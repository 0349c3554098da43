"""`pk users tokens`: a new token is a valid login, and its HMAC stays hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clients.pk_broker import PkBroker
from shapes import check_json

Run = Callable[..., Any]
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SECRET = "the-brokers-own"
KEYS = {
    "listeners": "CLIENTS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "CLIENTS",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "listener.name.clients.scram-sha-512.sasl.jaas.config": (
        f'{SCRAM} username="admin" password="hush";'
    ),
    "delegation.token.secret.key": SECRET,
    "delegation.token.expiry.time.ms": "3600000",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[PkBroker]:
    with PkBroker(config=KEYS) as broker:
        yield broker


@pytest.fixture
def at(broker: PkBroker, pk: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`pk` with an admin's login."""
    file = tmp_path / "admin.properties"
    login = f'sasl.jaas.config={SCRAM} username="admin" password="hush";\n'
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n{login}")
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", broker.bootstrap)

    def run(*words: str, **more: Any) -> Any:
        return pk(*words, "--config-file", str(file), **more)

    return run


def test_a_token_is_made_used_renewed_and_ended(
    at: Run, pk: Run, tmp_path: Path, broker: PkBroker
) -> None:
    options = ("--renewer", "bob", "--max-lifetime", "2h", "-y", "-f", "json")
    words = ("users", "tokens", "create", *options)
    made = at(*words)
    assert made.code == 0, made.err
    (token,) = check_json(words, made.out)
    assert (token["owner"], token["renewers"]) == ("User:admin", ["User:bob"])

    file = tmp_path / "token.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM} username="{token["token"]}" password="{token["hmac"]}" '
        'tokenauth="true";\n'
    )
    assert pk("topics", "list", "--config-file", str(file)).code == 0
    by_token = pk("users", "tokens", "create", "-y", "--config-file", str(file))
    assert by_token.code == 1
    assert (
        "NOT_ALLOWED: CreateDelegationToken; log in with SASL or a client certifi" in by_token.err
    )

    listed = at("users", "tokens", "list", "--owner", "bob", "-f", "json")
    (row,) = check_json(("users", "tokens", "list", "-f", "json"), listed.out)
    assert (row["token"], row["hmac"]) == (token["token"], None)
    shown = at("users", "tokens", "list", "--hmac", "-f", "json").json
    assert token["hmac"] in [one["hmac"] for one in shown]
    assert at("users", "tokens", "list", "--owner", "nobody", "-f", "json").json == []

    renewed = at("users", "tokens", "renew", token["token"], "--for", "90m", "-y", "-f", "json")
    (row,) = check_json(("users", "tokens", "renew", "x", "-f", "json"), renewed.out)
    assert row["result"] == "renewed" and row["expires"] >= token["expires"]
    assert "valid for 1 h 30 min from now, or for as long as the brokers allow." in renewed.err
    tried = at("users", "tokens", "expire", token["token"], "-d", "-f", "json")
    assert tried.json[0]["result"] == "would be ended"
    later = at("users", "tokens", "expire", token["token"], "--after", "10m", "-y", "-f", "json")
    assert later.json[0]["expires"] < token["expires"]
    ended = at("users", "tokens", "expire", token["token"], "-y", "-f", "json")
    assert (ended.code, ended.json[0]["result"]) == (0, "ended"), ended.err
    again = at("users", "tokens", "expire", token["token"], "-y")
    assert again.code == 1 and "does not exist, or you may not see it" in again.err
    assert pk("topics", "list", "--config-file", str(file)).code == 4
    for secret in (SECRET, token["hmac"]):
        assert secret not in broker.log_text + listed.text + renewed.text + later.err


@pytest.mark.parametrize("words", [("create",), ("renew", "x"), ("expire", "x")])
def test_a_failed_login_is_reported_as_that(
    pk: Run, broker: PkBroker, tmp_path: Path, words: tuple[str, ...]
) -> None:
    file = tmp_path / "wrong.properties"
    login = f'sasl.jaas.config={SCRAM} username="admin" password="guess";\n'
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n{login}")
    ran = pk("tokens", *words, "-y", "--config-file", str(file), "-b", broker.bootstrap)
    assert ran.code == 4
    assert "invalid credentials" in ran.err and "DelegationToken" not in ran.err


def test_nothing_is_made_without_a_yes(at: Run) -> None:
    before = at("users", "tokens", "list", "-f", "json").json
    assert at("users", "tokens", "create").code == 5
    tried = at("users", "tokens", "create", "-d")
    assert tried.code == 0 and "can log in as you do" in tried.err
    assert at("users", "tokens", "list", "-f", "json").json == before


def test_the_command_that_ends_a_token_names_the_cluster(
    at: Run, pk: Run, broker: PkBroker
) -> None:
    made = at("users", "tokens", "create", "-y", "-b", broker.bootstrap)
    assert made.code == 0
    suggested = made.err.partition("To end it: pk ")[2].split()
    assert suggested[-4:-1] == ["-b", broker.bootstrap, "--config-file"]
    assert pk(*suggested, "-y").code == 0
    assert at("users", "tokens", "create", "--max-lifetime", "soon", "-y").code == 2


def test_a_read_only_profile_makes_none(at: Run, pk: Run, broker: PkBroker) -> None:
    assert pk("profile", "add", "safe", "-b", broker.bootstrap, "--guard", "readonly").code == 0
    made = at("users", "tokens", "create", "-y").code
    assert made == 0
    (token, *_) = at("users", "tokens", "list", "-f", "json").json
    for words in (("create",), ("renew", token["token"]), ("expire", token["token"])):
        refused = at("tokens", *words, "-y", "--profile", "safe")
        assert refused.code == 5 and "read-only" in refused.err, words
    assert token in at("users", "tokens", "list", "-f", "json").json


def test_a_trace_shows_no_hmac(at: Run) -> None:
    made = at("users", "tokens", "create", "-y", "--trace", "-f", "json")
    (token,) = made.json
    assert made.code == 0 and token["hmac"] not in made.err
