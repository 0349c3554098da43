"""A broker's SASL keys, and the combinations that are refused."""

import pytest
from each import for_each

from pk.core.auth.jaas import PLAIN_LOGIN, SCRAM_LOGIN
from pk.core.auth.sasl_config import check_sasl, enabled_mechanisms, login_of
from pk.core.config import BrokerConfig, ConfigError

PLAIN_JAAS = "listener.name.clients.plain.sasl.jaas.config"
SCRAM_JAAS = "listener.name.clients.scram-sha-256.sasl.jaas.config"
WELL = {
    "node.id": "1",
    "listeners": "CLIENTS://:9092,PLAINTEXT://:9093",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    PLAIN_JAAS: f'{PLAIN_LOGIN} required user_a="hush";',
}
AMONG_BROKERS = {
    **WELL,
    "inter.broker.listener.name": "CLIENTS",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    PLAIN_JAAS: f'{PLAIN_LOGIN} required username="a" password="hush" user_a="hush";',
}


def test_what_can_be_kept_is_taken() -> None:
    for given in (WELL, AMONG_BROKERS):
        check_sasl(BrokerConfig.parse(given))


@for_each(
    ("given", "changed", "said"),
    [
        (WELL, {"sasl.enabled.mechanisms": "GSSAPI"}, "gssapi.sasl.jaas.config with a keytab"),
        (WELL, {"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms is empty"),
        (WELL, {"listener.name.clients.sasl.enabled.mechanisms": "X"}, "no SASL mechanism X"),
        (WELL, {PLAIN_JAAS: None}, f"needs {PLAIN_JAAS} with its users"),
        (WELL, {PLAIN_JAAS: "hush"}, f"{PLAIN_JAAS}: a login must be"),
        (WELL, {PLAIN_JAAS: f"{SCRAM_LOGIN} required;"}, "the login module of PLAIN must be"),
        (WELL, {"sasl.jaas.config": "hush required;"}, "belongs to no listener and mechanism"),
        (WELL, {"listener.name.clients.sasl.jaas.config": "x y;"}, "no listener and mechanism"),
        (AMONG_BROKERS, {"sasl.mechanism.inter.broker.protocol": "MINE"}, "pk has PLAIN"),
        (
            AMONG_BROKERS,
            {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
            "must be included in sasl.enabled.mechanisms",
        ),
        (AMONG_BROKERS, {PLAIN_JAAS: WELL[PLAIN_JAAS]}, "must have a username and a password"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    given: dict[str, str], changed: dict[str, str | None], said: str
) -> None:
    keys = {k: v for k, v in {**given, **changed}.items() if v is not None}
    with pytest.raises(ConfigError) as refused:
        check_sasl(BrokerConfig.parse(keys))
    assert said in str(refused.value) and "hush" not in str(refused.value)


def test_a_listener_s_own_keys_come_first() -> None:
    config = BrokerConfig.parse(
        {
            **WELL,
            "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
            SCRAM_JAAS: f'{SCRAM_LOGIN} required username="u" password="p";',
        }
    )
    assert enabled_mechanisms(config, "CLIENTS") == ("SCRAM-SHA-256", "PLAIN")
    assert enabled_mechanisms(config, "OTHER") == ("PLAIN",)
    login = login_of(config, "CLIENTS", "SCRAM-SHA-256")
    assert login is not None and login.username == "u"
    assert login_of(config, "CLIENTS", "SCRAM-SHA-512") is None
