"""A broker's SASL configuration on one listener, interpreted as by Apache Kafka.

A key may be specific to a listener (`listener.name.clients.sasl.enabled.mechanisms`), and a login
must be specific to a listener and a mechanism (`listener.name.clients.plain.sasl.jaas.config`).
Kafka's brokers ignore a login without these prefixes.
"""

from __future__ import annotations

from typing import Final, cast

from pk.core.auth.jaas import (
    KERBEROS_LOGIN,
    OAUTH_LOGIN,
    PLAIN_LOGIN,
    SCRAM_LOGIN,
    JaasError,
    Login,
    parse_jaas,
)
from pk.core.auth.kerberos_login import KerberosLogin
from pk.core.auth.kerberos_names import check_short_name_rules
from pk.core.auth.principal_mapping import PRINCIPAL_RULES, RuleError, check_rules
from pk.core.auth.sasl import GSSAPI, OAUTHBEARER, PLAIN
from pk.core.auth.unsecured_tokens import UNSECURED, check_validator, unsecured_token
from pk.core.config import BrokerConfig, ConfigError, base_name, broker_key
from pk.core.config.listener_keys import listener_key, listener_value
from pk.core.values import SASL_MECHANISMS

JAAS: Final = "sasl.jaas.config"
_NAMED_JAAS_PARTS: Final = len(f"listener.name.L.M.{JAAS}".split("."))
SASL_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
_MODULES: Final = {PLAIN: PLAIN_LOGIN, OAUTHBEARER: OAUTH_LOGIN, GSSAPI: KERBEROS_LOGIN}
JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
SHORT_NAMES: Final = "sasl.kerberos.principal.to.local.rules"
SERVICE_NAME: Final = "sasl.kerberos.service.name"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"


def enabled_mechanisms(config: BrokerConfig, listener: str) -> tuple[str, ...]:
    """Return `sasl.enabled.mechanisms` of a listener."""
    return cast("tuple[str, ...]", listener_value(config, listener, "sasl.enabled.mechanisms"))


def login_of(config: BrokerConfig, listener: str, mechanism: str) -> Login | None:
    """Return the login of a listener and a mechanism, or None. Raises ConfigError, without
    secrets."""
    name = listener_key(listener, JAAS, mechanism)
    text = config.explicit(name)
    if text is None:
        return None
    try:
        login = parse_jaas(text)
    except JaasError as e:
        raise ConfigError(f"{name}: {e}") from None
    wanted = _MODULES.get(mechanism, SCRAM_LOGIN)
    if login.module != wanted:
        raise ConfigError(f"{name}: the login module of {mechanism} must be {wanted}")
    return login


def kerberos_login(config: BrokerConfig, listener: str) -> KerberosLogin:
    """Return the keytab and the principal of a listener that enables GSSAPI. Raises ConfigError."""
    name = listener_key(listener, JAAS, GSSAPI)
    login = login_of(config, listener, GSSAPI)
    if login is None:
        raise ConfigError(
            f"listener {listener} enables GSSAPI, so it needs {name} with a keytab and a principal:"
            f' {KERBEROS_LOGIN} required useKeyTab=true storeKey=true keyTab="FILE"'
            ' principal="kafka/HOST@REALM";'
        )
    try:
        found = KerberosLogin.of(login)
    except JaasError as e:
        raise ConfigError(f"{name}: {e}") from None
    if found.keytab is None:
        raise ConfigError(f"{name}: a listener needs useKeyTab=true, keyTab and principal")
    return found


def short_name_rules(config: BrokerConfig, listener: str) -> tuple[str, ...]:
    """Return `sasl.kerberos.principal.to.local.rules` of a listener."""
    return cast("tuple[str, ...]", listener_value(config, listener, SHORT_NAMES, GSSAPI))


def check_changed_login(name: str, text: str) -> None:
    """Check a key changed at runtime. Raises ConfigError for an invalid login, a login without a
    listener and mechanism, or invalid rules for names."""
    base = base_name(name)
    try:
        if base == JAAS:
            _check_name(name)
            parse_jaas(text)
        elif base == SHORT_NAMES:
            check_short_name_rules(cast("tuple[str, ...]", broker_key(base).parse(text)))
        elif base == PRINCIPAL_RULES:
            check_rules(text)
    except (JaasError, RuleError) as e:
        raise ConfigError(f"{name}: {e}") from None


def check_listener(config: BrokerConfig, listener: str) -> None:
    """Check that a listener can authenticate clients as configured. Raises ConfigError."""
    names = enabled_mechanisms(config, listener)
    if not names:
        raise ConfigError(f"sasl.enabled.mechanisms is empty, but listener {listener} uses SASL")
    for name in names:
        if name not in SASL_MECHANISMS:
            raise ConfigError(
                f"pk has no SASL mechanism {name}: set "
                f"{listener_key(listener, 'sasl.enabled.mechanisms')} (or "
                f"sasl.enabled.mechanisms) to some of {', '.join(SASL_MECHANISMS)}"
            )
        if name == GSSAPI:
            kerberos_login(config, listener)
            try:
                check_short_name_rules(short_name_rules(config, listener))
            except RuleError as e:
                raise ConfigError(f"{SHORT_NAMES}: {e}") from None
            continue
        login = login_of(config, listener, name)
        if name == PLAIN and login is None:
            raise ConfigError(
                f"listener {listener} enables PLAIN, so it needs"
                f" {listener_key(listener, JAAS, PLAIN)} with its users"
            )
        if name == OAUTHBEARER:
            _check_tokens(config, listener, login)


def _check_tokens(config: BrokerConfig, listener: str, login: Login | None) -> None:
    signed = bool(listener_value(config, listener, JWKS_URL, OAUTHBEARER))
    if not config.pk_sasl_oauthbearer_unsecured:
        if not signed:
            raise ConfigError(
                f"listener {listener} enables OAUTHBEARER, so it needs {JWKS_URL}: the URL of the "
                f"keys that tokens are signed with. ({UNSECURED}=true accepts unsigned tokens: "
                "for tests and development only)"
            )
        return
    if signed:
        raise ConfigError(
            f"listener {listener} has {JWKS_URL} and {UNSECURED}=true: set only one of them"
        )
    try:
        check_validator(login.options if login is not None else {})
    except ValueError as e:
        raise ConfigError(f"{listener_key(listener, JAAS, OAUTHBEARER)}: {e}") from None


def check_sasl(config: BrokerConfig) -> None:
    """Check that a node can authenticate its peers, and itself to them, as configured. Raises
    ConfigError."""
    for name in config.static:
        if base_name(name) == JAAS:
            _check_name(name)
    for listener in config.listeners:
        if listener.security_protocol in SASL_PROTOCOLS:
            check_listener(config, listener.name)
    if config.is_broker:
        _check_own_login(config, "sasl.mechanism.inter.broker.protocol", config.inter_broker_login)
    if config.controller_listener_names:
        _check_own_login(config, "sasl.mechanism.controller.protocol", config.controller_login)


def _check_name(name: str) -> None:
    if len(name.split(".")) < _NAMED_JAAS_PARTS:
        raise ConfigError(
            f"{name} belongs to no listener and mechanism, so it has no effect: write"
            f" listener.name.NAME.MECHANISM.{JAAS}, the names in lower case"
        )


def _check_own_login(config: BrokerConfig, key: str, how: tuple[str, str, str]) -> None:
    """Check that this node can log in to the listeners of other nodes."""
    listener, protocol, mechanism = how
    if protocol not in SASL_PROTOCOLS:
        return
    if mechanism not in SASL_MECHANISMS:
        raise ConfigError(f"{key}={mechanism}: pk has {', '.join(SASL_MECHANISMS)}")
    if mechanism not in enabled_mechanisms(config, listener):
        raise ConfigError(
            f"{key} must be included in sasl.enabled.mechanisms when SASL is used for inter-broker "
            "communication"
        )
    login = login_of(config, listener, mechanism)
    if mechanism == OAUTHBEARER:
        if config.pk_sasl_oauthbearer_unsecured:
            try:
                unsecured_token(login.options if login is not None else {}, 0)
            except ValueError as e:
                raise ConfigError(f"{listener_key(listener, JAAS, mechanism)}: {e}") from None
        elif not listener_value(config, listener, TOKEN_URL, mechanism):
            raise ConfigError(f"{TOKEN_URL} is missing: nodes log in at {listener} with its tokens")
        return
    if mechanism == GSSAPI:
        service = listener_value(config, listener, SERVICE_NAME, GSSAPI)
        try:
            kerberos_login(config, listener).service(cast("str | None", service))
        except JaasError as e:
            raise ConfigError(f"nodes log in at {listener} by GSSAPI: {e}") from None
        return
    if login is None or not login.username or not login.password:
        raise ConfigError(
            f"{listener_key(listener, JAAS, mechanism)} must have a username and a password: nodes"
            f" log in at {listener} with them"
        )
