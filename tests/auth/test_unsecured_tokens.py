"""Tokens that nobody has signed; `test_security_peer.py` shows ours to Kafka's own validator."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from each import for_each

from pk.core.auth.oauthbearer import TokenRefused
from pk.core.auth.sasl_config import check_sasl
from pk.core.auth.unsecured_tokens import unsecured_token, validate_unsecured
from pk.core.config import BrokerConfig, ConfigError

NOW_MS = 1_700_000_000_000
SUB = {"unsecuredLoginStringClaim_sub": "alice"}


def part(fields: object) -> str:
    return urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()


def token(header: Any = None, tail: str = ".", **claims: Any) -> str:
    given = {"sub": "alice", "exp": NOW_MS / 1000 + 60, **claims}
    known = {name: value for name, value in given.items() if value is not None}
    return f"{part({'alg': 'none'} if header is None else header)}.{part(known)}{tail}"


def test_a_token_of_a_login_is_taken() -> None:
    options = {
        **SUB,
        "unsecuredLoginNumberClaim_n": "5",
        "unsecuredLoginListClaim_scope": "|read|write",
        "unsecuredLoginLifetimeSeconds": "60",
    }
    made = unsecured_token(options, NOW_MS / 1000)
    assert made.endswith(".") and made.count(".") == 2
    wanted = {"unsecuredValidatorRequiredScope": "write"}
    assert validate_unsecured(made, wanted, NOW_MS) == ("alice", NOW_MS + 60_000)
    with pytest.raises(TokenRefused, match="it has expired"):
        validate_unsecured(made, {}, NOW_MS + 60_000)
    with pytest.raises(TokenRefused, match="lacks the scope delete"):
        validate_unsecured(made, {"unsecuredValidatorRequiredScope": "read delete"}, NOW_MS)


def test_a_token_of_others_is_taken() -> None:
    assert validate_unsecured(token(), {}, NOW_MS).name == "alice"
    other = {"unsecuredValidatorPrincipalClaimName": "user"}
    assert validate_unsecured(token(user="bob"), other, NOW_MS).name == "bob"
    skewed = {"unsecuredValidatorAllowableClockSkewMs": "5000"}
    late = token(iat=NOW_MS / 1000 + 4, exp=NOW_MS / 1000 + 5)
    assert validate_unsecured(late, skewed, NOW_MS).name == "alice"


@for_each(
    ("wrong", "said"),
    [
        ("", "not a JWT"),
        ("a.b.c.d", "not a JWT"),
        (token(tail=""), "not a JWT"),
        ("!.!.", "not a JWT"),
        (f"{part([])}.{part({})}.", "not a JWT"),
        (token({"alg": "RS256"}), "it is signed"),
        (token({}), "it is signed"),
        (token(tail=".AAAA"), "has a signature"),
        (token(sub=None), "names no user"),
        (token(sub=" "), "names no user"),
        (token(sub=5), "names no user"),
        (token(exp=None), "'exp' is missing"),
        (token(exp="x"), "is not a time"),
        (token(exp=True), "is not a time"),
        (token(exp=1e300), "is not a time"),
        (token(exp=NOW_MS / 1000), "has expired"),
        (token(iat=NOW_MS / 1000 + 5), "not valid yet"),
        (token(sub="x" * 300_000), "not a JWT"),
    ],
)
def test_a_token_that_does_not_count(wrong: str, said: str) -> None:
    with pytest.raises(TokenRefused, match=said):
        validate_unsecured(wrong, {}, NOW_MS)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "unsecuredLoginStringClaim_sub is missing"),
        ({"unsecuredLoginStringClaim_sub": " "}, "unsecuredLoginStringClaim_sub is missing"),
        ({"unsecuredLoginNumberClaim_sub": "5"}, "unsecuredLoginStringClaim_sub is missing"),
        ({**SUB, "unsecuredLoginPrincipalClaimName": "u"}, "StringClaim_u is missing"),
        ({**SUB, "unsecuredLoginNumberClaim_n": "hush"}, "unsecuredLoginNumberClaim_n is no"),
        ({**SUB, "unsecuredLoginLifetimeSeconds": "0"}, "must be above 0"),
    ],
)
def test_a_login_that_makes_no_token(options: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        unsecured_token(options, 0)
    assert "hush" not in str(refused.value)


LISTENER = {
    "node.id": "1",
    "listeners": "CLIENTS://:9092,PLAINTEXT://:9093",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
}
UNSECURED = {"pk.sasl.oauthbearer.unsecured": "true"}
AMONG_BROKERS = {
    "inter.broker.listener.name": "CLIENTS",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
}
JAAS = "listener.name.clients.oauthbearer.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def test_a_listener_takes_them_only_where_a_key_says_so() -> None:
    check_sasl(BrokerConfig.parse(LISTENER | UNSECURED))
    own = {JAAS: f'{MODULE} unsecuredLoginStringClaim_sub="admin";'}
    check_sasl(BrokerConfig.parse(LISTENER | UNSECURED | AMONG_BROKERS | own))
    for keys, said in (
        ({}, "needs sasl.oauthbearer.jwks.endpoint.url"),
        (UNSECURED | {"sasl.oauthbearer.jwks.endpoint.url": "https://x/y"}, "set only one of them"),
        (UNSECURED | AMONG_BROKERS, "unsecuredLoginStringClaim_sub is missing"),
        (
            UNSECURED | {JAAS: f'{MODULE} unsecuredValidatorAllowableClockSkewMs="x";'},
            "AllowableClockSkewMs is not a number",
        ),
    ):
        with pytest.raises(ConfigError, match=said):
            check_sasl(BrokerConfig.parse(LISTENER | keys))
