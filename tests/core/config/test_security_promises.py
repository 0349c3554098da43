"""What promises security that pk does not have, and what only looks like it."""

import pytest

from pk.core.config import BrokerConfig, ConfigError
from pk.core.config.security_promises import check_security, promised_security


def promised(**given: str) -> list[str]:
    keys = {name.replace("__", "."): text for name, text in given.items()}
    return promised_security(BrokerConfig.parse({"node.id": "1", **keys}))


@pytest.mark.parametrize(
    "key, value",
    [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:admin"),
        ("allow.everyone.if.no.acl.found", "false"),
        ("ssl.keystore.location", "/etc/kafka/server.p12"),
        ("ssl.client.auth", "required"),
        ("listener.name.plaintext.ssl.truststore.location", "/etc/kafka/trust.p12"),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-512"),
        ("listener.name.plaintext.scram-sha-256.sasl.jaas.config", "x required;"),
        ("connections.max.reauth.ms", "3600000"),
        ("delegation.token.secret.key", "hush"),
        ("principal.builder.class", "org.example.Mine"),
        ("security.providers", "org.example.Mine"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_SSL"),
        ("listener.security.protocol.map", "PLAINTEXT:SSL"),
    ],
)
def test_a_key_that_promises_security_is_refused(key: str, value: str) -> None:
    config = BrokerConfig({"node.id": "1", key: value})
    assert promised_security(config) == [key]
    with pytest.raises(ConfigError) as refused:
        check_security(config)
    assert key in str(refused.value) and value not in str(refused.value)
    check_security(BrokerConfig({"node.id": "1", key: value, "pk.security.ignore": "true"}))


def test_brokers_that_are_to_meet_by_tls_do_not_start() -> None:
    given = {"listeners": "SSL://:9093", "security.inter.broker.protocol": "SSL"}
    assert "security.inter.broker.protocol" in promised_security(BrokerConfig(given))


@pytest.mark.parametrize(
    "key, value",
    [
        ("authorizer.class.name", ""),
        ("super.users", ""),
        ("allow.everyone.if.no.acl.found", "true"),
        ("ssl.client.auth", "none"),
        ("sasl.enabled.mechanisms", "GSSAPI"),
        ("security.inter.broker.protocol", "PLAINTEXT"),
        (
            "listener.security.protocol.map",
            "PLAINTEXT:PLAINTEXT, CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
        ),
        ("num.io.threads", "8"),
    ],
)
def test_a_default_promises_nothing(key: str, value: str) -> None:
    config = BrokerConfig.parse({"node.id": "1", key: value})
    assert promised_security(config) == []
    check_security(config)


def test_an_error_names_a_few_keys_and_no_secret() -> None:
    names = [
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.key.password",
        "super.users",
    ]
    with pytest.raises(ConfigError, match="and 1 more promise: everybody") as refused:
        check_security(BrokerConfig(dict.fromkeys(names, "hush")))
    assert "hush" not in str(refused.value)
