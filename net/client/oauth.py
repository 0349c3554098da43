"""Parses how a client gets its OAuth tokens, from Kafka's keys or from the options of its login."""

from __future__ import annotations

from typing import Protocol

from pk.core.auth.jaas import OAUTH_LOGIN, JaasError, parse_jaas
from pk.core.auth.unsecured_tokens import UNSECURED, asks_for_unsecured, unsecured_token
from pk.net.client.errors import ConfigError
from pk.net.oauth.http import Timeouts, check_url
from pk.net.oauth.token_provider import TokenProvider
from pk.net.oauth.token_source import PROVIDER, Refresh, TokenSettings
from pk.net.tls.settings import TlsSettings

_URL = "sasl.oauthbearer.token.endpoint.url"
_EXTENSION = "extension_"


class OAuthKeys(Protocol):
    """The keys of a `ClientConfig` that this module reads."""

    @property
    def pk_sasl_oauthbearer_unsecured(self) -> bool: ...
    @property
    def sasl_jaas_config(self) -> str | None: ...
    @property
    def sasl_login_connect_timeout_ms(self) -> int: ...
    @property
    def sasl_login_read_timeout_ms(self) -> int: ...
    @property
    def sasl_login_refresh_buffer_seconds(self) -> int: ...
    @property
    def sasl_login_refresh_min_period_seconds(self) -> int: ...
    @property
    def sasl_login_refresh_window_factor(self) -> float: ...
    @property
    def sasl_login_refresh_window_jitter(self) -> float: ...
    @property
    def sasl_login_retry_backoff_ms(self) -> int: ...
    @property
    def sasl_login_retry_backoff_max_ms(self) -> int: ...
    @property
    def sasl_oauthbearer_client_credentials_client_id(self) -> str | None: ...
    @property
    def sasl_oauthbearer_client_credentials_client_secret(self) -> str | None: ...
    @property
    def sasl_oauthbearer_header_urlencode(self) -> bool: ...
    @property
    def sasl_oauthbearer_scope(self) -> str | None: ...
    @property
    def sasl_oauthbearer_token_endpoint_url(self) -> str | None: ...
    @property
    def sasl_oauthbearer_token_provider(self) -> TokenProvider | str | None: ...


def token_settings(config: OAuthKeys) -> TokenSettings:
    """Parse the token settings. Raises ConfigError, without secrets."""
    options: dict[str, str] = {}
    if config.sasl_jaas_config is not None:
        try:
            login = parse_jaas(config.sasl_jaas_config)
        except JaasError as e:
            raise ConfigError(f"sasl.jaas.config: {e}") from None
        if login.module != OAUTH_LOGIN:
            raise ConfigError(
                f"sasl.jaas.config: the login module of OAUTHBEARER must be {OAUTH_LOGIN}"
            )
        options = login.options
    if config.pk_sasl_oauthbearer_unsecured or asks_for_unsecured(options):
        return _unsecured(config, options)
    url = config.sasl_oauthbearer_token_endpoint_url
    if config.sasl_oauthbearer_token_provider is not None:
        if url:
            raise ConfigError(f"{_URL} and {PROVIDER} are both given: give only one")
        return TokenSettings(
            url="",
            provider=config.sasl_oauthbearer_token_provider,
            backoff_s=config.sasl_login_retry_backoff_ms / 1000,
            backoff_max_s=config.sasl_login_retry_backoff_max_ms / 1000,
            refresh=_refresh(config),
            extensions=_extensions(options),
        )
    if not url:
        raise ConfigError(f"{_URL} or {PROVIDER} is missing: OAUTHBEARER needs a source of tokens")
    try:
        check_url(url, _URL)
    except ValueError as e:
        raise ConfigError(str(e)) from None
    client_id = config.sasl_oauthbearer_client_credentials_client_id or options.get("clientId")
    secret = config.sasl_oauthbearer_client_credentials_client_secret or options.get("clientSecret")
    if not url.startswith("file:") and not (client_id and secret):
        raise ConfigError(
            "OAUTHBEARER needs sasl.oauthbearer.client.credentials.client.id and .client.secret"
            " (or clientId and clientSecret in sasl.jaas.config)"
        )
    return TokenSettings(
        url=url,
        client_id=client_id,
        client_secret=secret,
        scope=config.sasl_oauthbearer_scope or options.get("scope"),
        url_encode=config.sasl_oauthbearer_header_urlencode,
        timeouts=Timeouts(config.sasl_login_connect_timeout_ms, config.sasl_login_read_timeout_ms),
        backoff_s=config.sasl_login_retry_backoff_ms / 1000,
        backoff_max_s=config.sasl_login_retry_backoff_max_ms / 1000,
        refresh=_refresh(config),
        extensions=_extensions(options),
        tls=TlsSettings.of(options.get),
    )


def _refresh(config: OAuthKeys) -> Refresh:
    return Refresh(
        config.sasl_login_refresh_window_factor,
        config.sasl_login_refresh_window_jitter,
        config.sasl_login_refresh_min_period_seconds,
        config.sasl_login_refresh_buffer_seconds,
    )


def _unsecured(config: OAuthKeys, options: dict[str, str]) -> TokenSettings:
    """Return the settings for unsigned tokens. Raises ConfigError if the client may not, or cannot,
    make its tokens itself."""
    if not config.pk_sasl_oauthbearer_unsecured:
        raise ConfigError(f"sasl.jaas.config: pk sends unsigned tokens only with {UNSECURED}=true")
    if config.sasl_oauthbearer_token_endpoint_url:
        raise ConfigError(f"{_URL} and {UNSECURED}=true are both given: give only one")
    try:
        unsecured_token(options, 0)
    except ValueError as e:
        raise ConfigError(f"sasl.jaas.config: {e}") from None
    return TokenSettings(
        url="", unsecured=tuple(sorted(options.items())), extensions=_extensions(options)
    )


def _extensions(options: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name.removeprefix(_EXTENSION), value)
        for name, value in sorted(options.items())
        if name.startswith(_EXTENSION)
    )
