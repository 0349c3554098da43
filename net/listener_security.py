"""Authentication of the peers of one listener, by the broker's keys and the cluster's current
users."""

from __future__ import annotations

import logging
import ssl
from functools import partial
from typing import Any, Final, cast

import trio
from msgspec.structs import replace

from pk.core.auth.distinguished_name import subject_of
from pk.core.auth.oauthbearer import ValidToken
from pk.core.auth.principal import ANONYMOUS, USER, KafkaPrincipal
from pk.core.auth.principal_mapping import PRINCIPAL_RULES, RuleError, check_rules, mapped_name
from pk.core.auth.sasl import GSSAPI, OAUTHBEARER
from pk.core.auth.sasl_config import (
    JWKS_URL,
    SASL_PROTOCOLS,
    enabled_mechanisms,
    kerberos_login,
    login_of,
)
from pk.core.auth.unsecured_tokens import UNSECURED, validate_unsecured
from pk.core.broker.broker import Broker
from pk.core.config import BrokerConfig, ConfigError, Listener
from pk.core.config.listener_keys import listener_value, own_value
from pk.net.kerberos import KerberosUnavailable, accepting
from pk.net.listener_mechanisms import ListenerMechanisms, ScramUsers
from pk.net.oauth.http import TIMEOUT_MS, Timeouts, check_url, read_url
from pk.net.oauth.jwks import Jwks
from pk.net.oauth.jwt_validator import Expected, JwtValidator, LibraryMissing, parse_key
from pk.net.tls.contexts import (
    CurrentContext,
    TlsError,
    certificate_date_problem,
    client_context,
    server_context,
)
from pk.net.tls.settings import TlsSettings

logger = logging.getLogger("pk.server")

RECEIVE_SIZE: Final = "sasl.server.max.receive.size"
FAILURES_LOGGED_S: Final = 1.0
"""The interval for logging failed logins, so that a client that guesses passwords cannot fill the
log."""


def listener_tls(config: BrokerConfig, listener: Listener) -> TlsSettings:
    """Return the `ssl.*` keys of a listener. As in Kafka, a listener with SASL requests client
    certificates only if the key for that is its own."""
    settings = TlsSettings.of(lambda key: listener_value(config, listener.name, key))
    if listener.security_protocol == "SASL_SSL":
        own = own_value(config, listener.name, "ssl.client.auth")
        settings = replace(settings, client_auth=str(own or "none"))
    return settings


def principal_rules(config: BrokerConfig, listener: str) -> str:
    """Return `ssl.principal.mapping.rules` of a listener."""
    return str(listener_value(config, listener, PRINCIPAL_RULES) or "")


async def check_tls(config: BrokerConfig) -> None:
    """Check that the TLS configs of listeners are usable, and log a warning for a certificate that
    has expired or is not valid yet. Raises ConfigError."""
    for listener in config.listeners:
        if listener.security_protocol in ("SSL", "SASL_SSL"):
            try:
                check_rules(principal_rules(config, listener.name))
                settings = listener_tls(config, listener)
                await trio.to_thread.run_sync(_context_of, listener, settings)
            except (RuleError, TlsError) as e:
                raise ConfigError(f"listener {listener.name}: {e}") from None


def _context_of(listener: Listener, settings: TlsSettings) -> ssl.SSLContext:
    context, said = server_context(settings), certificate_date_problem(settings)
    if said is not None:
        logger.warning(
            "Listener %s: %s; clients and brokers that verify it cannot connect",
            listener.name, said,
        )  # fmt: skip
    return context


def check_oauth(config: BrokerConfig) -> None:
    """Check that the configs of listeners for tokens are usable. Raises ConfigError."""
    for listener in config.listeners:
        if listener.security_protocol in SASL_PROTOCOLS and OAUTHBEARER in enabled_mechanisms(
            config, listener.name
        ):
            if config.pk_sasl_oauthbearer_unsecured:
                logger.warning(
                    "Listener %s accepts unsigned tokens (%s=true): a client can claim any name. "
                    "For tests and development only",
                    listener.name, UNSECURED,
                )  # fmt: skip
            else:
                jwt_validator(config, listener)


async def check_kerberos(config: BrokerConfig) -> None:
    """Check that the configs of listeners for GSSAPI are usable. Raises ConfigError."""
    for listener in config.listeners:
        if listener.security_protocol in SASL_PROTOCOLS and GSSAPI in enabled_mechanisms(
            config, listener.name
        ):
            login = kerberos_login(config, listener.name)
            try:
                await trio.to_thread.run_sync(accepting, login)
            except KerberosUnavailable as e:
                raise ConfigError(f"listener {listener.name}: {e}") from None


def jwt_validator(config: BrokerConfig, listener: Listener) -> JwtValidator:
    """Return the validator for the tokens of a listener's clients. Raises ConfigError."""

    def value(key: str) -> Any:
        return listener_value(config, listener.name, f"sasl.{key}", OAUTHBEARER)

    url = str(value("oauthbearer.jwks.endpoint.url"))
    login = login_of(config, listener.name, OAUTHBEARER)
    options: dict[str, str] = login.options if login is not None else {}
    tls = TlsSettings.of(options.get)
    try:
        check_url(url, JWKS_URL)
        if is_https := url.startswith("https:"):
            client_context(tls)
        timeouts = Timeouts(
            value("login.connect.timeout.ms") or TIMEOUT_MS,
            value("login.read.timeout.ms") or TIMEOUT_MS,
        )

        def read() -> bytes:
            return read_url(url, timeouts, client_context(tls) if is_https else None)

        jwks = Jwks(
            read,
            parse_key,
            refresh_s=value("oauthbearer.jwks.endpoint.refresh.ms") / 1000,
            backoff_s=value("oauthbearer.jwks.endpoint.retry.backoff.ms") / 1000,
            backoff_max_s=value("oauthbearer.jwks.endpoint.retry.backoff.max.ms") / 1000,
        )
        expected = Expected(
            audience=value("oauthbearer.expected.audience"),
            issuer=value("oauthbearer.expected.issuer"),
            clock_skew_s=value("oauthbearer.clock.skew.seconds"),
            scope_claim=value("oauthbearer.scope.claim.name"),
            sub_claim=value("oauthbearer.sub.claim.name"),
        )
        return JwtValidator(jwks, expected)
    except (ValueError, LibraryMissing) as e:
        raise ConfigError(f"listener {listener.name}: {e}") from None


class ListenerSecurity:
    """The security of one listener. Keys that can change at runtime are read when a peer
    connects."""

    def __init__(self, broker: Broker, listener: Listener) -> None:
        self._broker = broker
        self._listener = listener
        self._users = ScramUsers(broker)
        self._context = CurrentContext(
            lambda: listener_tls(broker.config, listener),
            partial(_context_of, listener),
            listener.name,
        )
        self._tokens: JwtValidator | None = None
        self._failures = 0
        self._failure_logged = float("-inf")

    @property
    def uses_sasl(self) -> bool:
        """Whether peers authenticate by SASL."""
        return self._listener.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    @property
    def uses_tls(self) -> bool:
        """Whether connections begin with a TLS handshake."""
        return self._listener.security_protocol in ("SSL", "SASL_SSL")

    async def tls_context(self) -> ssl.SSLContext:
        """Return the listener's context with the current keys and files. Raises TlsError."""
        return await self._context.get()

    def principal_of(self, certificate: bytes | None) -> KafkaPrincipal:
        """Return the principal of a peer with this certificate. Raises RuleError,
        CertificateError."""
        if certificate is None:
            return ANONYMOUS
        rules = principal_rules(self._broker.config, self._listener.name)
        return KafkaPrincipal(USER, mapped_name(rules, subject_of(certificate)))

    @property
    def timeout_s(self) -> float:
        """How long authentication may take."""
        return self._broker.config.pk_authentication_timeout_ms / 1000

    @property
    def failed_delay_s(self) -> float:
        """How long the answer to a failed login is delayed (KIP-306)."""
        return self._broker.config.connection_failed_authentication_delay_ms / 1000

    @property
    def receive_bytes_max(self) -> int:
        """The largest frame before authentication."""
        config = self._broker.config
        return cast(int, listener_value(config, self._listener.name, RECEIVE_SIZE))

    def mechanisms(self) -> ListenerMechanisms:
        """Return the mechanisms with which clients may log in."""
        return ListenerMechanisms(self._broker, self._listener.name, self._users, self._validate)

    async def fetch_keys(self) -> None:
        """Fetch the keys that verify tokens (`KeysNeeded`)."""
        await self._jwt_validator().jwks.fetch()

    def _validate(self, token: str) -> ValidToken:
        config = self._broker.config
        if config.pk_sasl_oauthbearer_unsecured:
            login = login_of(config, self._listener.name, OAUTHBEARER)
            options = {} if login is None else login.options
            return validate_unsecured(token, options, self._broker.clock.now_ms())
        return self._jwt_validator().validate(token)

    def _jwt_validator(self) -> JwtValidator:
        if self._tokens is None:
            self._tokens = jwt_validator(self._broker.config, self._listener)
        return self._tokens

    def report(self, peer: str, why: str) -> None:
        """Log that a peer failed to authenticate, unless such a line was logged a moment ago."""
        self._failures += 1
        if trio.current_time() - self._failure_logged >= FAILURES_LOGGED_S:
            logger.warning(
                "Failed authentication with %s on listener %s: %s (%d since the last such line)",
                peer, self._listener.name, why, self._failures,
            )  # fmt: skip
            self._failures, self._failure_logged = 0, trio.current_time()
