"""OAUTHBEARER on real sockets: a provider, tokens that count and that do not, and clients of
others."""

from __future__ import annotations

import json
import logging
import re
import runpy
import ssl
import sys
import time
import types
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import confluent_kafka
import jwt
import kafka
import kafka.net.sasl.oauth
import pytest
import trio
import trio.testing
from certificates import authority
from nodes import running_cluster, running_node, trio_test
from oauth_provider import AUDIENCE, CLIENT_ID, CLIENT_SECRET, ISSUER, Provider, running_provider

from pk.core.auth.oauthbearer import KeysNeeded, TokenRefused
from pk.core.auth.sasl import SaslError
from pk.core.errors import ErrorCode, KafkaError
from pk.net import listener_security
from pk.net.client import connection as client_connection
from pk.net.client.admin import open_admin
from pk.net.client.config import AdminConfig, parse
from pk.net.client.errors import ConfigError
from pk.net.client.oauth import token_settings
from pk.net.client.producer import open_producer
from pk.net.client.results import NewTopic
from pk.net.connection import login as server_login
from pk.net.node import Node
from pk.net.oauth import jwks as jwks_module
from pk.net.oauth import token_source
from pk.net.oauth.http import Timeouts, read_url
from pk.net.oauth.jwks import Jwks
from pk.net.oauth.jwt_validator import Expected, JwtValidator, parse_key
from pk.net.oauth.token_provider import AccessToken
from pk.net.oauth.token_source import Refresh, TokenSource

OAUTH_LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@asynccontextmanager
async def secured(provider: Provider, **keys: str) -> AsyncIterator[Node]:
    given: dict[str, Any] = {
        "listeners": "CLIENTS://127.0.0.1:0",
        "listener__security__protocol__map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter__broker__listener__name": "CLIENTS",
        "sasl__enabled__mechanisms": "OAUTHBEARER",
        "sasl__mechanism__inter__broker__protocol": "OAUTHBEARER",
        "listener.name.clients.oauthbearer.sasl.jaas.config": (
            f'{OAUTH_LOGIN} clientId="{CLIENT_ID}" clientSecret="{CLIENT_SECRET}";'
        ),
        "sasl__oauthbearer__jwks__endpoint__url": provider.jwks_url,
        "sasl__oauthbearer__token__endpoint__url": provider.token_url,
        "sasl__oauthbearer__expected__audience": f"other,{AUDIENCE}",
        "sasl__oauthbearer__expected__issuer": ISSUER,
        "connection__failed__authentication__delay__ms": "10",
        **keys,
    }
    async with running_node(**given) as node:
        yield node


def login(provider: Provider, secret: str = CLIENT_SECRET) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.jaas.config": f'{OAUTH_LOGIN} clientId="{CLIENT_ID}" clientSecret="{secret}";',
    }


def by_file(path: Path, token: str) -> dict[str, str]:
    path.write_text(token + "\n")
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
    }


# --- clients of others ---


def by_librdkafka_oidc(address: str, provider: Provider) -> None:
    how: dict[str, Any] = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.secret": CLIENT_SECRET,
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
    }
    _by_librdkafka(how)


def by_librdkafka_callback(address: str, provider: Provider) -> None:
    def token(_: str) -> tuple[str, float]:
        return provider.token(), time.time() + provider.lifetime_s

    how: dict[str, Any] = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": token,
    }
    _by_librdkafka(how)


def _by_librdkafka(how: dict[str, Any]) -> None:
    failed: list[object] = []
    producer = confluent_kafka.Producer(how)
    producer.produce("t", b"librdkafka", on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(60) == 0 and failed == [None]
    consumer = confluent_kafka.Consumer({**how, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    message = consumer.poll(60)
    assert message is not None and message.value() == b"librdkafka"
    consumer.close()


def by_kafka_python(address: str, provider: Provider) -> None:
    class Tokens(kafka.net.sasl.oauth.AbstractTokenProvider):
        def token(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]  # declared as None
            return provider.token()

    how: dict[str, Any] = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Tokens(),
    }
    producer = kafka.KafkaProducer(**how)
    producer.send("t", b"kafka-python").get(60)
    producer.close()
    consumer = kafka.KafkaConsumer(
        "t", **how, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    assert next(consumer).value == b"kafka-python"
    consumer.close()


def by_aiokafka(address: str, provider: Provider) -> None:
    import asyncio

    class Tokens(aiokafka.abc.AbstractTokenProvider):
        async def token(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]  # declared as None
            return provider.token()

    async def main() -> None:
        how: dict[str, Any] = {
            "bootstrap_servers": address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": Tokens(),
        }
        async with aiokafka.AIOKafkaProducer(**how) as producer:
            await producer.send_and_wait("t", b"aiokafka")
        consumer = aiokafka.AIOKafkaConsumer("t", **how, auto_offset_reset="earliest")
        async with consumer:
            message = await asyncio.wait_for(consumer.getone(), 60)
            assert message.value == b"aiokafka"

    asyncio.run(main())


def test_clients_of_others_produce_and_consume() -> None:
    clients: list[Callable[[str, Provider], None]] = [
        by_librdkafka_oidc,
        by_librdkafka_callback,
        by_kafka_python,
        by_aiokafka,
    ]

    @trio_test
    async def run() -> None:
        with running_provider() as provider:
            for client in clients:
                async with secured(provider) as node:
                    async with open_admin(node.address, login(provider)) as admin:
                        await admin.create_topics([NewTopic("t", 1, 1)])
                    await trio.to_thread.run_sync(client, node.address, provider)

    run()


# --- pk's own client ---


@trio_test
async def test_pk_gets_one_token_for_all_connections() -> None:
    with running_provider() as provider:
        async with secured(provider) as node:
            keys = login(provider)
            async with open_admin(node.address, keys) as admin:
                await admin.create_topics([NewTopic("t", 1, 1)])
            async with open_producer(node.address, keys) as producer:
                await (await producer.send("t", b"x"))
        assert provider.requests.count("/token") == 1
        assert provider.requests.count("/jwks") == 1


@trio_test
async def test_brokers_log_in_at_each_other_with_tokens() -> None:
    with running_provider("ES256") as provider:
        keys: dict[str, Any] = {
            "listener__security__protocol__map": (
                "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
            ),
            "sasl__enabled__mechanisms": "OAUTHBEARER",
            "sasl__mechanism__inter__broker__protocol": "OAUTHBEARER",
            "sasl__mechanism__controller__protocol": "OAUTHBEARER",
            "sasl__oauthbearer__jwks__endpoint__url": provider.jwks_url,
            "sasl__oauthbearer__token__endpoint__url": provider.token_url,
            "sasl__oauthbearer__expected__audience": AUDIENCE,
            "sasl__oauthbearer__client__credentials__client__id": CLIENT_ID,
            "sasl__oauthbearer__client__credentials__client__secret": CLIENT_SECRET,
        }
        async with running_cluster(2, **keys) as cluster:
            address = cluster.nodes[1].address
            async with open_admin(address, login(provider)) as admin:
                await admin.create_topics([NewTopic("t", 1, 2)])
            async with open_producer(address, {**login(provider), "acks": "all"}) as producer:
                assert (await (await producer.send("t", b"to both"))).offset == 0


@trio_test
async def test_over_tls_with_an_authority_of_its_own(tmp_path: Path) -> None:
    made = authority()
    trust = made.write_trust(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.sign("CN=provider", "127.0.0.1").write(tmp_path / "p.pem"))
    options = f'ssl.truststore.type="PEM" ssl.truststore.location="{trust}"'
    jaas = f'{OAUTH_LOGIN} clientId="{CLIENT_ID}" clientSecret="{CLIENT_SECRET}" {options};'
    with running_provider(tls=context) as provider:
        key = {"listener.name.clients.oauthbearer.sasl.jaas.config": jaas}
        async with secured(provider, **key) as node:
            keys = {**login(provider), "sasl.jaas.config": jaas}
            async with open_admin(node.address, keys) as admin:
                assert await admin.list_topics() == ()
            with pytest.raises(KafkaError, match="certificate is not trusted"):
                async with open_admin(node.address, login(provider)) as admin:
                    await admin.list_topics()


@trio_test
async def test_a_client_logs_in_again_with_a_new_token_of_a_new_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The client logs in again before each request, with a new token each time: no clock decides.
    monkeypatch.setattr(client_connection, "REAUTHENTICATE_SHARE_MIN", 0.0)
    monkeypatch.setattr(client_connection, "REAUTHENTICATE_SHARE_MAX", 0.0)
    monkeypatch.setattr(server_login, "BETWEEN_AUTHENTICATIONS_S", 0.0)
    monkeypatch.setattr(token_source.Refresh, "used_s", lambda *_: 0.0)
    monkeypatch.setattr(jwks_module, "UNKNOWN_KEY_S", 0.0)
    with running_provider() as provider:
        async with secured(provider) as node, open_admin(node.address, login(provider)) as admin:
            assert await admin.list_topics() == ()
            assert provider.requests.count("/jwks") == 1
            provider.rotate("key-2")
            assert await admin.list_topics() == ()
            assert provider.requests.count("/jwks") == 2


# --- unsigned tokens ---


UNSECURED = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": f'{OAUTH_LOGIN} unsecuredLoginStringClaim_sub="alice";',
    "pk.sasl.oauthbearer.unsecured": "true",
}


def by_librdkafka_unsecured(address: str) -> None:
    how: dict[str, Any] = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": True,
        "sasl.oauthbearer.config": "principal=bob scope=read",
    }
    _by_librdkafka(how)


@trio_test
async def test_unsigned_tokens_are_taken_where_a_key_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keys: dict[str, Any] = {
        "listener__security__protocol__map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl__enabled__mechanisms": "OAUTHBEARER",
        "sasl__mechanism__inter__broker__protocol": "OAUTHBEARER",
        "sasl__mechanism__controller__protocol": "OAUTHBEARER",
        "pk__sasl__oauthbearer__unsecured": "true",
    }
    for listener in ("plaintext", "controller"):
        keys[f"listener.name.{listener}.oauthbearer.sasl.jaas.config"] = (
            f'{OAUTH_LOGIN} unsecuredLoginStringClaim_sub="admin";'
        )
    async with running_cluster(2, **keys) as cluster:
        address = cluster.nodes[1].address
        assert "accepts unsigned tokens" in caplog.text
        async with open_admin(address, UNSECURED) as admin:
            await admin.create_topics([NewTopic("t", 1, 2)])
        await trio.to_thread.run_sync(by_librdkafka_unsecured, address)
        with pytest.raises(KafkaError, match="invalid_token"):
            signed = jwt.encode({"sub": "eve", "exp": time.time() + 60}, "k" * 32, "HS256")
            monkeypatch = pytest.MonkeyPatch()
            with monkeypatch.context() as patch:
                patch.setattr(token_source, "unsecured_token", lambda *_: signed)
                token_source.token_source.cache_clear()
                async with open_admin(address, UNSECURED) as admin:
                    await admin.list_topics()


@trio_test
async def test_unsigned_tokens_are_refused_without_the_key() -> None:
    with running_provider() as provider:
        async with secured(provider) as node:
            token_source.token_source.cache_clear()
            with pytest.raises(KafkaError, match="invalid_token"):
                async with open_admin(node.address, UNSECURED) as admin:
                    await admin.list_topics()


def test_a_client_sends_no_unsigned_token_unless_a_key_says_so() -> None:
    for changed, said in (
        (
            {"pk.sasl.oauthbearer.unsecured": "false"},
            "only with pk.sasl.oauthbearer.unsecured=true",
        ),
        ({"sasl.jaas.config": f"{OAUTH_LOGIN};"}, "unsecuredLoginStringClaim_sub is missing"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://x/y"}, "give only one"),
    ):
        with pytest.raises(ConfigError, match=said):
            token_settings(parse(AdminConfig, UNSECURED | changed))


# --- tokens that do not count ---


class Lines(logging.Handler):
    """Log lines, to be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._send, self.receive = trio.open_memory_channel[str](1000)

    def emit(self, record: logging.LogRecord) -> None:
        self._send.send_nowait(record.getMessage())


@trio_test
async def test_each_reason_is_logged_and_none_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_security, "FAILURES_LOGGED_S", 0.0)
    lines = Lines()
    now = int(time.time())
    with running_provider() as provider, running_provider() as stranger:
        tokens = {
            "it has expired": provider.token(exp=now - 100),
            "it is not valid yet": provider.token(nbf=now + 1000),
            "another audience": provider.token(aud="else"),
            "another issuer": provider.token(iss="https://else"),
            "a claim is missing": provider.token(exp=None),
            "its signature is wrong": stranger.token(),
            "names no user": provider.token(sub=None),
            "is not a scope": provider.token(scope=7),
            "its algorithm is not one of": jwt.encode({"sub": "a"}, "k" * 64, "HS256"),
            "it is not a JWT": "hello",
        }
        async with secured(provider) as node:
            logging.getLogger("pk.server").addHandler(lines)
            try:
                for number, (reason, token) in enumerate(tokens.items()):
                    keys = by_file(tmp_path / f"token-{number}", token)
                    with pytest.raises(KafkaError, match="invalid_token") as failed:
                        async with open_admin(node.address, keys) as admin:
                            await admin.list_topics()
                    assert failed.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
                    assert reason not in str(failed.value)
                    said = await lines.receive.receive()
                    while reason not in said:  # pk's client tries more than once
                        said = await lines.receive.receive()
                    assert token not in said
            finally:
                logging.getLogger("pk.server").removeHandler(lines)


@trio_test
async def test_a_token_without_expected_audience_must_name_none(tmp_path: Path) -> None:
    with running_provider() as provider:
        async with secured(provider, sasl__oauthbearer__expected__audience="") as node:
            # The node itself cannot log in with its own token then, which no test here needs.
            keys = by_file(tmp_path / "without", provider.token(aud=None))
            async with open_admin(node.address, keys) as admin:
                assert await admin.list_topics() == ()
            keys = by_file(tmp_path / "with", provider.token())
            with pytest.raises(KafkaError, match="invalid_token"):
                async with open_admin(node.address, keys) as admin:
                    await admin.list_topics()


@trio_test
async def test_a_wrong_secret_is_said_without_it() -> None:
    with running_provider() as provider:
        async with secured(provider) as node:
            with pytest.raises(KafkaError, match="401 Unauthorized") as failed:
                async with open_admin(node.address, login(provider, "hush")) as admin:
                    await admin.list_topics()
            assert "hush" not in str(failed.value)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": "ftp://x/y"}, "must be a URL"),
        ({"sasl.oauthbearer.token.endpoint.url": "https:///y"}, "must be a URL"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://[x"}, "must be a URL"),
        ({}, "token.endpoint.url or sasl.oauthbearer.token.provider is missing"),
        ({"sasl.oauthbearer.token.endpoint.url": "http://x/y"}, "client.credentials.client.id"),
        (
            {"sasl.jaas.config": f'{OAUTH_LOGIN} unsecuredLoginStringClaim_sub="a";'},
            "unsigned tokens only with",
        ),
        ({"sasl.jaas.config": 'x.y.Mine required clientSecret="hush";'}, "the login module"),
        ({"sasl.login.callback.handler.class": "x.y.Mine"}, "is a Java class"),
    ],
)
def test_keys_that_cannot_be_meant(keys: dict[str, str], said: str) -> None:
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", **keys}
    with pytest.raises(ConfigError, match=said) as refused:
        parse(AdminConfig, given)
    assert "hush" not in str(refused.value)


# --- keys of the provider ---


def jwks_of(url: str, refresh_s: float = 3600) -> Jwks:
    return Jwks(
        partial(read_url, url, Timeouts(), None),
        parse_key,
        refresh_s=refresh_s,
        backoff_s=1,
        backoff_max_s=4,
    )


def validator_of(jwks: Jwks) -> JwtValidator:
    return JwtValidator(jwks, Expected((AUDIENCE,), ISSUER, 30, "scope", "sub"))


def test_keys_are_fetched_again_when_they_are_old_or_lack_one() -> None:
    async def main() -> None:
        with running_provider() as provider:
            jwks = jwks_of(provider.jwks_url)
            validator = validator_of(jwks)
            with pytest.raises(KeysNeeded):
                validator.validate(provider.token())
            await jwks.fetch()
            assert validator.validate(provider.token("alice")).name == "alice"

            provider.rotate("key-2")
            with pytest.raises(TokenRefused, match="none of the provider's keys"):
                validator.validate(provider.token())  # asked for a moment ago
            clock.jump(2)
            with pytest.raises(KeysNeeded):
                validator.validate(provider.token())
            await jwks.fetch()
            assert validator.validate(provider.token()).name == CLIENT_ID

            # While a provider is away, the known keys stay valid, and it is asked less and less
            # often.
            provider.fails = True
            clock.jump(3601)
            with pytest.raises(KeysNeeded):
                validator.validate(provider.token())
            await jwks.fetch()
            assert validator.validate(provider.token()).name == CLIENT_ID
            clock.jump(1.1)
            with pytest.raises(KeysNeeded):
                validator.validate(provider.token())
            await jwks.fetch()
            clock.jump(1.1)
            assert validator.validate(provider.token()).name == CLIENT_ID
            provider.fails = False
            clock.jump(1)
            await jwks.fetch()
            clock.jump(1.1)
            assert validator.validate(provider.token()).name == CLIENT_ID

    clock = trio.testing.MockClock()
    trio.run(main, clock=clock)


@trio_test
async def test_many_who_wait_for_keys_ask_once() -> None:
    with running_provider() as provider:
        jwks = jwks_of(provider.jwks_url)
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(jwks.fetch)
        assert provider.requests == ["/jwks"]


@trio_test
async def test_keys_from_a_file(tmp_path: Path) -> None:
    import json

    provider = Provider("ES256")
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [*provider.jwks["keys"], {"kty": "oct", "k": "aa"}, 7]}))
    jwks = jwks_of(path.as_uri())
    await jwks.fetch()
    assert validator_of(jwks).validate(provider.token("alice")).name == "alice"


@trio_test
async def test_a_token_source_replaces_tokens_in_time() -> None:
    clock = [1000.0]
    with running_provider() as provider:
        provider.lifetime_s = 300
        settings = token_settings(parse(AdminConfig, login(provider)))
        source = TokenSource(settings, lambda: time.time() + clock[0])
        clock[0] = 0.0
        first = await source.get()
        assert await source.get() == first
        clock[0] = 0.9 * 300
        provider.rotate("key-2")
        second = await source.get()
        assert second != first
        # While the provider is away, a token that still lives does.
        provider.fails = True
        assert await source.get()
        assert provider.requests.count("/token") >= 2


@trio_test
async def test_a_provider_that_is_away_is_asked_again_for_a_while() -> None:
    with running_provider() as provider:
        provider.fails = True
        keys = {**login(provider), "sasl.login.retry.backoff.max.ms": "60000"}
        source = TokenSource(token_settings(parse(AdminConfig, keys)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(source.get)  # raises when it gives up
            while provider.requests.count("/token") < 2:  # a thread adds to them  # noqa: ASYNC110
                await trio.sleep(0.01)
            provider.fails = False


@trio_test
async def test_a_provider_that_stays_away_is_given_up() -> None:
    with running_provider() as provider:
        provider.fails = True
        keys = {**login(provider), "sasl.login.retry.backoff.max.ms": "300"}
        source = TokenSource(token_settings(parse(AdminConfig, keys)))
        with pytest.raises(SaslError, match="503"):
            await source.get()


@pytest.mark.parametrize(
    ("refresh", "life_s", "chance", "used_s"),
    [
        (Refresh(), 3600, 0.0, 2880),
        (Refresh(), 3600, 1.0, 3060),
        (Refresh(), 600, 0.0, 300),  # the buffer
        (Refresh(), 300, 0.0, 240),  # least period and buffer are longer than that
        (Refresh(0.5, 0.0, 0, 0), 100, 1.0, 50),
        (Refresh(0.5, 0.0, 400, 100), 600, 1.0, 400),  # the least period
    ],
)
def test_when_a_token_is_replaced(
    refresh: Refresh, life_s: float, chance: float, used_s: float
) -> None:
    assert refresh.used_s(life_s, chance) == pytest.approx(used_s)


def test_the_keys_of_refresh_reach_the_source() -> None:
    keys = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "file:///t",
        "sasl.login.refresh.window.factor": "0.6",
        "sasl.login.refresh.window.jitter": "0",
        "sasl.login.refresh.min.period.seconds": "10",
        "sasl.login.refresh.buffer.seconds": "20",
    }
    assert token_settings(parse(AdminConfig, keys)).refresh == Refresh(0.6, 0.0, 10, 20)
    for wrong in ("0.4", "1.5", "much", "nan"):
        with pytest.raises(ConfigError, match="a number from 0.5 to 1"):
            parse(AdminConfig, {**keys, "sasl.login.refresh.window.factor": wrong})


def by_provider(provider: object) -> dict[str, object]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.provider": provider,
    }


def made_token() -> str:
    """A provider that `module:function` names."""
    assert MADE is not None
    return MADE.token("alice")


MADE: Provider | None = None


@trio_test
async def test_a_program_can_bring_a_function_that_returns_tokens() -> None:
    calls: list[str] = []
    with running_provider() as provider:

        def token() -> AccessToken:
            calls.append("asked")
            return AccessToken(provider.token("alice"), 3600)

        async with secured(provider) as node:
            for _ in range(2):  # the second client uses the first one's token
                async with open_admin(node.address, by_provider(token)) as admin:
                    assert (await admin.describe_cluster()).brokers
        assert calls == ["asked"]


@trio_test
async def test_a_provider_is_a_function_or_a_command_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_provider() as provider:
        monkeypatch.setattr(sys.modules[__name__], "MADE", provider)
        script = tmp_path / "token"
        for printed in (
            provider.token("alice"),
            json.dumps({"access_token": provider.token("alice"), "expires_in": 60}),
        ):
            script.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\n")
            script.chmod(0o755)
            async with secured(provider) as node:
                for name in (f"{__name__}:made_token", f"{script} --region eu"):
                    async with open_admin(node.address, by_provider(name)) as admin:
                        assert (await admin.describe_cluster()).brokers


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        (lambda: None, "it returned NoneType, not a token"),
        (lambda: 1 / 0, "it raised ZeroDivisionError: division by zero"),
        ("no.such.module:token", "it raised ModuleNotFoundError: No module named 'no'"),
        ("/no/such/command", "/no/such/command: "),
        ("sh -c 'echo expired credentials >&2; exit 3'", "sh: expired credentials"),
        ("echo {}", "echo printed JSON without access_token"),
    ],
)
@trio_test
async def test_a_provider_that_fails_says_why(provider: object, said: str) -> None:
    config = parse(AdminConfig, by_provider(provider) | {"sasl.login.retry.backoff.max.ms": 0})
    with pytest.raises(SaslError) as caught:
        await TokenSource(token_settings(config)).get()
    assert "(sasl.oauthbearer.token.provider)" in str(caught.value) and said in str(caught.value)


def test_a_provider_and_an_endpoint_exclude_each_other() -> None:
    both = by_provider("echo x") | {"sasl.oauthbearer.token.endpoint.url": "https://x/token"}
    with pytest.raises(ConfigError, match="give only one"):
        parse(AdminConfig, both)
    with pytest.raises(ConfigError, match="neither module:function nor a command"):
        parse(AdminConfig, by_provider("sh -c 'open"))


@pytest.mark.parametrize("name", ["msk_token", "event_hubs_token"])
def test_the_documented_functions_return_tokens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Uses stand-ins for the libraries of the two clouds, which need accounts."""
    ends_s = time.time() + 900
    msk = types.ModuleType("aws_msk_iam_sasl_signer")
    azure = types.ModuleType("azure.identity")

    class MSKAuthTokenProvider:
        @staticmethod
        def generate_auth_token(region: str) -> tuple[str, int]:
            assert region
            return "signed", int(ends_s * 1000)

    class DefaultAzureCredential:
        def get_token(self, scope: str) -> types.SimpleNamespace:
            assert scope.startswith("https://")
            return types.SimpleNamespace(token="signed", expires_on=int(ends_s))

    msk.__dict__["MSKAuthTokenProvider"] = MSKAuthTokenProvider
    azure.__dict__["DefaultAzureCredential"] = DefaultAzureCredential
    monkeypatch.setitem(sys.modules, msk.__name__, msk)
    monkeypatch.setitem(sys.modules, "azure", types.ModuleType("azure"))
    monkeypatch.setitem(sys.modules, azure.__name__, azure)
    page = (Path(__file__).resolve().parents[2] / "docs/authentication.md").read_text()
    (code,) = (c for c in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if name in c)
    (tmp_path / "tokens.py").write_text(code)
    found = runpy.run_path(str(tmp_path / "tokens.py"))[name]()
    assert found.token == "signed" and 890 < found.expires_in_s <= 900
