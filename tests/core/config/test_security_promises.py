"""Keys that promise security features pk does not have, and keys that only look like them."""

import pytest
from each import for_each

from pk.core.config import BROKER_KEYS, BrokerConfig, ConfigError
from pk.core.config.security_promises import PROMISES, check_security, promised_security
from pk.core.config.unsupported import UNSUPPORTED


@for_each(
    "key, value",
    [
        ("super.users", "User:admin"),
        ("allow.everyone.if.no.acl.found", "false"),
        ("ssl.engine.factory.class", "org.example.Mine"),
        ("ssl.protocol", "TLSv1.1"),
        ("ssl.secure.random.implementation", "SHA1PRNG"),
        ("listener.name.plaintext.ssl.trustmanager.algorithm", "Mine"),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-512,MINE"),
        ("listener.name.plaintext.sasl.enabled.mechanisms", "MINE"),
        ("sasl.mechanism.inter.broker.protocol", "MINE"),
        ("sasl.oauthbearer.assertion.private.key.file", "/etc/key.pem"),
        ("sasl.oauthbearer.jwt.validator.class", "org.example.Mine"),
        ("sasl.server.callback.handler.class", "org.example.Mine"),
        ("principal.builder.class", "org.example.Mine"),
        ("security.providers", "org.example.Mine"),
    ],
)
def test_a_key_that_promises_security_is_refused(key: str, value: str) -> None:
    config = BrokerConfig({"node.id": "1", key: value})
    ((name, promise),) = promised_security(config).items()
    assert name == key
    with pytest.raises(ConfigError) as refused:
        check_security(config)
    assert f"{key} is not supported: it requires that {promise}" in str(refused.value)
    assert value not in str(refused.value)
    check_security(BrokerConfig({"node.id": "1", key: value, "pk.security.ignore": "true"}))


AUTHORIZER = {
    "node.id": "1",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}


def test_the_standard_authorizer_keeps_its_promise() -> None:
    config = BrokerConfig.parse(
        AUTHORIZER
        | {"super.users": "User:root; User:CN=a,O=b;", "allow.everyone.if.no.acl.found": "True"}
    )
    assert promised_security(config) == {}
    assert config.super_users == {"User:root", "User:CN=a,O=b"}
    assert config.allow_everyone_if_no_acl_found
    assert not BrokerConfig.parse(AUTHORIZER).allow_everyone_if_no_acl_found


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("authorizer.class.name", "com.example.Mine", "pk has no other authorizer"),
        ("super.users", "User:root;admin", "'admin' has no type: write User:admin"),
    ],
)
def test_an_authorizer_that_cannot_be_what_is_wanted_does_not_start(
    key: str, value: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        BrokerConfig.parse(AUTHORIZER | {key: value})


@for_each(
    "key, value",
    [
        ("authorizer.class.name", ""),
        ("super.users", ""),
        ("allow.everyone.if.no.acl.found", "true"),
        ("ssl.client.auth", "none"),
        ("sasl.enabled.mechanisms", "GSSAPI"),
        ("sasl.enabled.mechanisms", "GSSAPI,PLAIN"),
        ("sasl.kerberos.service.name", "kafka"),
        ("security.inter.broker.protocol", "PLAINTEXT"),
        ("ssl.keystore.location", "/etc/kafka/server.p12"),
        ("ssl.client.auth", "required"),
        ("listener.name.plaintext.ssl.truststore.location", "/etc/kafka/trust.p12"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_SSL"),
        ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"),
        ("listener.name.plaintext.sasl.enabled.mechanisms", "SCRAM-SHA-512"),
        ("sasl.mechanism.inter.broker.protocol", "SCRAM-SHA-512"),
        ("listener.name.plaintext.scram-sha-256.sasl.jaas.config", "x required;"),
        ("connections.max.reauth.ms", "3600000"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT"),
        (
            "listener.security.protocol.map",
            "PLAINTEXT:PLAINTEXT, CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
        ),
        ("sasl.enabled.mechanisms", "OAUTHBEARER"),
        ("sasl.mechanism.inter.broker.protocol", "OAUTHBEARER"),
        ("sasl.oauthbearer.jwks.endpoint.url", "https://h/keys"),
        (
            "listener.name.plaintext.oauthbearer.sasl.server.callback.handler.class",
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        ),
        ("delegation.token.secret.key", "hush"),
        ("num.io.threads", "8"),
        ("sasl.kerberos.kinit.cmd", "/opt/kinit"),
        ("sasl.kerberos.min.time.before.relogin", "5"),
        ("listener.name.plaintext.sasl.kerberos.ticket.renew.jitter", "0.1"),
        ("sasl.kerberos.ticket.renew.window.factor", "0.5"),
        ("sasl.oauthbearer.assertion.algorithm", "ES256"),
        ("sasl.oauthbearer.assertion.claim.iss", "me"),
        ("ssl.keymanager.algorithm", "PKIX"),
        ("ssl.allow.dn.changes", "true"),
        ("ssl.allow.san.changes", "true"),
        ("ssl.protocol", "TLS"),
        ("ssl.provider", "SunJSSE"),
        ("ssl.trustmanager.algorithm", "SunX509"),
        (
            "sasl.oauthbearer.jwt.retriever.class",
            "org.apache.kafka.common.security.oauthbearer.FileJwtRetriever",
        ),
    ],
)
def test_a_default_promises_nothing(key: str, value: str) -> None:
    config = BrokerConfig.parse({"node.id": "1", key: value})
    assert promised_security(config) == {}
    check_security(config)


def test_an_error_names_all_keys_and_no_secret() -> None:
    names = [
        "ssl.engine.factory.class",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "security.providers",
        "super.users",
    ]
    with pytest.raises(ConfigError, match="some keys are not supported: ") as refused:
        check_security(BrokerConfig(dict.fromkeys(names, "hush")))
    said = str(refused.value)
    assert "hush" not in said and all(f"{name} (it requires that " in said for name in names)
    assert "everybody" not in said


def test_only_what_is_kept_or_promises_something_is_missing() -> None:
    """Each key of the features that pk does not have is one that promises, or one that is kept."""
    features = ("Java's classes for TLS", "Kerberos and SASL's Java classes", "principals")
    beginnings = tuple(start for feature in features for start in UNSUPPORTED[feature])
    missing = {name for name in BROKER_KEYS if name.startswith(beginnings)}
    assert PROMISES.keys() <= missing
    assert missing - PROMISES.keys() == {
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
