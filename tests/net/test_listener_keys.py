"""Every key that Apache Kafka lets a listener have for itself takes effect, or is refused at the
start, or does nothing in pk with the prefix as without."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from certificates import authority
from cryptography.hazmat.primitives.serialization import Encoding
from each import for_each
from nodes import trio_test

from pk.core.auth.jaas import PLAIN_LOGIN
from pk.core.auth.sasl_config import (
    check_sasl,
    enabled_mechanisms,
    login_of,
    short_name_rules,
)
from pk.core.config import BROKER_KEYS, BrokerConfig, ConfigError
from pk.core.config.listener_keys import LISTENER_KEYS, MECHANISM_KEYS, listener_key
from pk.core.config.security_promises import PROMISES, check_security
from pk.net import listener_security
from pk.net.connection_quotas import UNLIMITED, ConnectionQuotas
from pk.net.listener_mechanisms import ListenerMechanisms
from pk.net.listener_security import ListenerSecurity, check_tls, jwt_validator, listener_tls
from pk.net.oauth.http import Timeouts
from pk.net.peers import security_of

ONE = {
    "node.id": "1",
    "listeners": "EXT://:9092,PLAINTEXT://:9093",
    "listener.security.protocol.map": "EXT:SASL_SSL,PLAINTEXT:PLAINTEXT",
}
BOTH = {"sasl.oauthbearer.jwks.endpoint.url": "https://broker/keys"}
SUBJECT = authority("CN=ca").sign("CN=alice,O=x").certificate.public_bytes(Encoding.DER)

Reader = Callable[[BrokerConfig, str], object]


def broker_of(config: BrokerConfig) -> Any:
    return SimpleNamespace(
        config=config, clock=SimpleNamespace(time=lambda: 1000.0), image=SimpleNamespace(quotas={})
    )


def ext(config: BrokerConfig) -> Any:
    return next(one for one in config.listeners if one.name == "EXT")


def tls(config: BrokerConfig, key: str) -> object:
    return getattr(listener_tls(config, ext(config)), key.removeprefix("ssl.").replace(".", "_"))


def client(mechanism: str) -> Reader:
    def read(config: BrokerConfig, key: str) -> object:
        return security_of(config, "EXT", "SASL_SSL", mechanism).get(key.replace(".", "_"))

    return read


def security(config: BrokerConfig) -> ListenerSecurity:
    return ListenerSecurity(broker_of(config), ext(config))


def tokens(config: BrokerConfig, key: str) -> object:
    """The parts of the check of tokens."""
    made: dict[str, object] = {}

    def jwks(read: Callable[[], bytes], _: object, **more: Any) -> None:
        read()
        made.update(more)

    def read_url(url: str, timeouts: Timeouts, _: object) -> bytes:
        made["url"], (made["connect"], made["read"]) = url, timeouts
        return b""

    def validator(_: object, expected: Any) -> object:
        made.update(expected._asdict())
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listener_security, "Jwks", jwks)
        patch.setattr(listener_security, "read_url", read_url)
        patch.setattr(listener_security, "JwtValidator", validator)
        jwt_validator(config, ext(config))
    return made[TOKENS[key]]


TOKENS = {
    "sasl.oauthbearer.clock.skew.seconds": "clock_skew_s",
    "sasl.oauthbearer.expected.audience": "audience",
    "sasl.oauthbearer.expected.issuer": "issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "refresh_s",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "backoff_max_s",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "backoff_s",
    "sasl.oauthbearer.jwks.endpoint.url": "url",
    "sasl.oauthbearer.scope.claim.name": "scope_claim",
    "sasl.oauthbearer.sub.claim.name": "sub_claim",
}


def reauth_ms(config: BrokerConfig, _: str) -> object:
    unused = cast(Any, None)
    mechanisms = ListenerMechanisms(broker_of(config), "EXT", unused, unused)
    return mechanisms.session_ms_max("PLAIN")


def paced(config: BrokerConfig, _: str) -> object:
    quotas = ConnectionQuotas(broker_of(config))
    return any(quotas.wait_s("EXT") for _ in range(40)), quotas.wait_s("PLAINTEXT") > 0


EFFECTS: dict[str, tuple[str, Reader, object, str]] = {
    "ssl.cipher.suites": ("A,B", tls, ("A", "B"), ""),
    "ssl.client.auth": ("required", tls, "required", ""),
    "ssl.enabled.protocols": ("TLSv1.2", tls, ("TLSv1.2",), ""),
    "ssl.endpoint.identification.algorithm": ("", client("PLAIN"), "", ""),
    "ssl.principal.mapping.rules": (
        "RULE:CN=([^,]*).*/$1/",
        lambda config, _: security(config).principal_of(SUBJECT).name,
        "alice",
        "",
    ),
    **{
        f"ssl.{key}": ("x", tls, "x", "")
        for key in (
            *("key.password", "keystore.certificate.chain", "keystore.key", "keystore.location"),
            *("keystore.password", "keystore.type", "truststore.certificates"),
            *("truststore.location", "truststore.password", "truststore.type"),
        )
    },
    "sasl.enabled.mechanisms": (
        "PLAIN",
        lambda config, _: enabled_mechanisms(config, "EXT"),
        ("PLAIN",),
        "",
    ),
    "sasl.server.max.receive.size": (
        "1000",
        lambda config, _: security(config).receive_bytes_max,
        1000,
        "",
    ),
    "sasl.jaas.config": (
        f'{PLAIN_LOGIN} required user_a="x";',
        lambda config, _: (login_of(config, "EXT", "PLAIN") or cast(Any, None)).plain_users,
        {"a": "x"},
        "PLAIN",
    ),
    "connections.max.reauth.ms": ("5000", reauth_ms, 5000, "PLAIN"),
    "sasl.kerberos.principal.to.local.rules": (
        "RULE:[1:$1],DEFAULT",
        lambda config, _: short_name_rules(config, "EXT"),
        ("RULE:[1:$1]", "DEFAULT"),
        "GSSAPI",
    ),
    "sasl.kerberos.service.name": ("x", client("GSSAPI"), "x", "GSSAPI"),
    **{
        f"sasl.login.{key}": (value, client("OAUTHBEARER"), expected, "OAUTHBEARER")
        for key, value, expected in (
            ("connect.timeout.ms", "5", 5),
            ("read.timeout.ms", "5", 5),
            ("refresh.buffer.seconds", "5", 5),
            ("refresh.min.period.seconds", "5", 5),
            ("refresh.window.factor", "0.5", 0.5),
            ("refresh.window.jitter", "0.2", 0.2),
            ("retry.backoff.max.ms", "5", 5),
            ("retry.backoff.ms", "5", 5),
        )
    },
    **{
        f"sasl.oauthbearer.{key}": ("x", client("OAUTHBEARER"), "x", "OAUTHBEARER")
        for key in (
            *("client.credentials.client.id", "client.credentials.client.secret"),
            *("scope", "token.endpoint.url"),
        )
    },
    **{
        f"sasl.oauthbearer.{key}": (value, tokens, expected, "OAUTHBEARER")
        for key, value, expected in (
            ("clock.skew.seconds", "5", 5),
            ("expected.audience", "a,b", ("a", "b")),
            ("expected.issuer", "x", "x"),
            ("jwks.endpoint.refresh.ms", "5000", 5.0),
            ("jwks.endpoint.retry.backoff.max.ms", "5000", 5.0),
            ("jwks.endpoint.retry.backoff.ms", "5000", 5.0),
            ("jwks.endpoint.url", "https://x/y", "https://x/y"),
            ("scope.claim.name", "x", "x"),
            ("sub.claim.name", "x", "x"),
        )
    },
    "max.connections": (
        "7",
        lambda config, _: ConnectionQuotas(broker_of(config)).connections_max("EXT"),
        7,
        "",
    ),
    "max.connection.creation.rate": ("1", paced, (True, False), ""),
}
"""A listener's key: its value, the function that reads it, the result, and the mechanism that it
also applies to."""
REFUSED = {
    "principal.builder.class",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.server.callback.handler.class",
    "ssl.engine.factory.class",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
}
IDLE = {
    "num.network.threads",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file",
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
    "ssl.keymanager.algorithm",
}
"""Keys that steer nothing here, and promise nothing by themselves."""


def test_the_list_is_apache_kafka_s() -> None:
    """Kafka 4.3.1 makes a listener's channels of all its `ssl.*` and `sasl.*` keys, but for how
    brokers log in at others, and its quotas and threads of three more."""
    ours = {key for key in LISTENER_KEYS if not key.startswith("pk.")}
    assert ours == {*EFFECTS, *REFUSED, *IDLE}
    assert PROMISES.keys() & LISTENER_KEYS == REFUSED
    assert MECHANISM_KEYS <= LISTENER_KEYS
    assert {key for key, row in EFFECTS.items() if row[3]} <= MECHANISM_KEYS


@pytest.mark.parametrize("key", EFFECTS)
def test_a_listener_s_own_key_takes_effect(key: str) -> None:
    value, read, expected, mechanism = EFFECTS[key]
    names = [listener_key("EXT", key)] if key != "sasl.jaas.config" else []
    names += [listener_key("EXT", key, mechanism)] if mechanism else []
    for name in names:
        with_it = BrokerConfig(ONE | BOTH | {name: value})
        assert read(with_it, key) == expected, name
        assert with_it.keys_without_reader == []
    if key != "sasl.jaas.config":
        assert read(BrokerConfig(ONE | BOTH), key) != expected
        other = BrokerConfig(ONE | BOTH | {listener_key("PLAINTEXT", key): value})
        assert read(other, key) != expected
    if len(names) == 2:
        mine = BrokerConfig(ONE | BOTH | {names[0]: str(BROKER_KEYS[key].default or 0)})
        both = BrokerConfig({**mine.static, names[1]: value})
        assert read(both, key) == expected, "a mechanism's comes before a listener's"


def test_a_limit_of_the_broker_s_connections_is_none_of_a_listener() -> None:
    config = BrokerConfig(ONE | {"max.connections": "7"})
    assert ConnectionQuotas(broker_of(config)).connections_max("EXT") == UNLIMITED


@for_each("key", sorted(REFUSED))
def test_a_listener_s_own_key_is_refused(key: str) -> None:
    names = [listener_key("EXT", key)]
    names += [listener_key("EXT", key, "PLAIN")] if key in MECHANISM_KEYS else []
    for name in names:
        with pytest.raises(ConfigError, match=f"{name} is not supported: it requires that"):
            check_security(BrokerConfig(ONE | {name: "x"}))


@for_each("key", sorted(IDLE))
def test_a_listener_s_own_key_that_does_nothing_is_kept(key: str) -> None:
    value = BROKER_KEYS[key].default or "0"
    config = BrokerConfig.parse(ONE | {listener_key("EXT", key): value})
    check_security(config)
    assert config.keys_without_reader == []


@pytest.mark.parametrize(
    ("key", "value", "mechanism"),
    [
        ("max.connections", "x", ""),
        ("ssl.client.auth", "perhaps", ""),
        ("connections.max.reauth.ms", "x", "PLAIN"),
        ("sasl.server.max.receive.size", "x", ""),
        ("sasl.oauthbearer.clock.skew.seconds", "x", "OAUTHBEARER"),
    ],
)
def test_a_value_that_is_none_refuses_the_start(key: str, value: str, mechanism: str) -> None:
    for name in {listener_key("EXT", key), listener_key("EXT", key, mechanism)}:
        with pytest.raises(ConfigError):
            BrokerConfig.parse(ONE | {name: value})


@trio_test
async def test_a_rule_that_is_none_refuses_the_start() -> None:
    broken = {listener_key("EXT", "ssl.principal.mapping.rules"): "RULE:(/x/"}
    with pytest.raises(ConfigError, match="listener EXT: Invalid rule: 'RULE:"):
        await check_tls(BrokerConfig.parse(ONE | broken))
    kerberos = {
        listener_key("EXT", "sasl.enabled.mechanisms"): "GSSAPI",
        listener_key("EXT", "sasl.jaas.config", "GSSAPI"): (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
            'keyTab="/k" principal="kafka/h@R";'
        ),
    }
    check_sasl(BrokerConfig.parse(ONE | kerberos))
    for mechanism in ("", "GSSAPI"):
        name = listener_key("EXT", "sasl.kerberos.principal.to.local.rules", mechanism)
        with pytest.raises(ConfigError, match="Invalid rule"):
            check_sasl(BrokerConfig.parse(ONE | kerberos | {name: "RULE:[1:$1](*)"}))
