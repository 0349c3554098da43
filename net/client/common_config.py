"""The config keys that all clients share, and the login they specify. Brokers use them too, as
clients of each other."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from msgspec import Struct, StructMeta

from pk.core.structs import repr_without
from pk.core.values import SASL_MECHANISMS
from pk.net.client.errors import ConfigError

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class ConfigKey(NamedTuple):
    """A field of a config class: its default and its allowed values."""

    default: Any
    low: Any
    high: Any
    one_of: tuple[str, ...]
    check: Callable[[Any], str | None] | None
    """A function that returns the error in a value, or None."""
    secret: bool
    accepts: Callable[[object], bool] | None = None
    """A function that returns whether a Python object may be given in place of text."""


def config_key(
    default: object,
    *,
    low: float | None = None,
    high: float | None = None,
    one_of: tuple[str, ...] = (),
    check: Callable[[Any], str | None] | None = None,
    secret: bool = False,
    accepts: Callable[[object], bool] | None = None,
) -> Any:
    """Declare a field of a config class with its default and its allowed values: from `low` to
    `high`, one of `one_of`, or those for which `check` returns None. A `secret` is never shown.
    `accepts` says which Python objects a program may give in place of text. The keywords are the
    fields of ConfigKey, whose declarations take one or two of them."""
    return ConfigKey(default, low, high, one_of, check, secret, accepts)


def _protocol(value: str) -> str | None:
    if value.upper() in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        return None
    return "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"


def _login_class(value: str) -> str | None:
    oauth = "org.apache.kafka.common.security.oauthbearer."
    known = ("", *(f"{oauth}{room}OAuthBearerLoginCallbackHandler" for room in ("", "secured.")))
    return None if value in known else "is a Java class"


def _token_provider(value: object) -> str | None:
    from pk.net.oauth.token_provider import check

    return check(value)


def _is_tls_context(value: object) -> bool:
    return hasattr(value, "wrap_bio")  # importing ssl takes long


def _no_text(value: str) -> str | None:
    return "is an ssl.SSLContext, which only a program can pass"


def _dns(value: str) -> str | None:
    if value == "resolve_canonical_bootstrap_servers_only":
        return "pk does not resolve canonical names; use use_all_dns_ips"
    return None if value == "use_all_dns_ips" else "must be use_all_dns_ips"


class _ConfigMeta(StructMeta):
    """Makes a struct from a class whose values are `ConfigKey`s, and stores those in
    `config_keys`."""

    config_keys: dict[str, ConfigKey]

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **options: Any
    ) -> Any:
        own = {each: key for each, key in namespace.items() if isinstance(key, ConfigKey)}
        namespace |= {each: key.default for each, key in own.items()}
        made = super().__new__(mcs, name, bases, namespace, **options)
        made.config_keys = getattr(made, "config_keys", {}) | own
        return made


class ClientConfig(Struct, metaclass=_ConfigMeta, frozen=True, kw_only=True):
    """The config that all clients share. Attributes are the keys with `_` for `.`; times in ms,
    sizes in bytes."""

    client_id: str = config_key("pk")
    client_dns_lookup: str = config_key("use_all_dns_ips", check=_dns)
    security_protocol: str = config_key("PLAINTEXT", check=_protocol)
    sasl_mechanism: str = config_key("GSSAPI")
    sasl_jaas_config: str | None = config_key(None, secret=True)
    sasl_username: str | None = config_key(None)
    sasl_password: str | None = config_key(None, secret=True)
    sasl_kerberos_service_name: str | None = config_key(None)
    sasl_login_callback_handler_class: str = config_key("", check=_login_class)
    sasl_login_connect_timeout_ms: int = config_key(10_000, low=1, high=INT_MAX)
    sasl_login_read_timeout_ms: int = config_key(10_000, low=1, high=INT_MAX)
    sasl_login_refresh_buffer_seconds: int = config_key(300, low=0, high=3_600)
    sasl_login_refresh_min_period_seconds: int = config_key(60, low=0, high=900)
    sasl_login_refresh_window_factor: float = config_key(0.8, low=0.5, high=1.0)
    sasl_login_refresh_window_jitter: float = config_key(0.05, low=0.0, high=0.25)
    sasl_login_retry_backoff_ms: int = config_key(100, low=0, high=LONG_MAX)
    sasl_login_retry_backoff_max_ms: int = config_key(10_000, low=0, high=LONG_MAX)
    sasl_oauthbearer_client_credentials_client_id: str | None = config_key(None)
    sasl_oauthbearer_client_credentials_client_secret: str | None = config_key(None, secret=True)
    sasl_oauthbearer_header_urlencode: bool = config_key(False)
    sasl_oauthbearer_scope: str | None = config_key(None)
    sasl_oauthbearer_token_endpoint_url: str | None = config_key(None)
    sasl_oauthbearer_token_provider: Any = config_key(None, check=_token_provider, accepts=callable)
    """A callable that returns a token (`pk.net.oauth.token_provider.TokenProvider`),
    `module:function`, or a command that prints a token."""
    ssl_cipher_suites: tuple[str, ...] = config_key(())
    ssl_context: Any = config_key(None, check=_no_text, accepts=_is_tls_context)
    """A ready `ssl.SSLContext`, in place of the other TLS keys."""
    ssl_enabled_protocols: tuple[str, ...] = config_key(("TLSv1.2", "TLSv1.3"))
    ssl_endpoint_identification_algorithm: str = config_key("https")
    ssl_key_password: str | None = config_key(None, secret=True)
    ssl_keystore_certificate_chain: str | None = config_key(None, secret=True)
    ssl_keystore_key: str | None = config_key(None, secret=True)
    ssl_keystore_location: str | None = config_key(None)
    ssl_keystore_password: str | None = config_key(None, secret=True)
    ssl_keystore_type: str = config_key("JKS")
    ssl_truststore_certificates: str | None = config_key(None, secret=True)
    ssl_truststore_location: str | None = config_key(None)
    ssl_truststore_password: str | None = config_key(None, secret=True)
    ssl_truststore_type: str = config_key("JKS")
    pk_sasl_oauthbearer_unsecured: bool = config_key(False)
    request_timeout_ms: int = config_key(30_000, low=0, high=INT_MAX)
    connections_max_idle_ms: int = config_key(540_000, high=LONG_MAX)
    reconnect_backoff_ms: int = config_key(50, low=0, high=LONG_MAX)
    reconnect_backoff_max_ms: int = config_key(1_000, low=0, high=LONG_MAX)
    retry_backoff_ms: int = config_key(100, low=0, high=LONG_MAX)
    retry_backoff_max_ms: int = config_key(1_000, low=0, high=LONG_MAX)
    socket_connection_setup_timeout_ms: int = config_key(10_000, low=1, high=LONG_MAX)
    socket_connection_setup_timeout_max_ms: int = config_key(30_000, low=1, high=LONG_MAX)
    receive_buffer_bytes: int = config_key(-1, low=-1, high=INT_MAX)
    send_buffer_bytes: int = config_key(-1, low=-1, high=INT_MAX)
    metadata_max_age_ms: int = config_key(300_000, low=0, high=LONG_MAX)
    metadata_recovery_strategy: str = config_key("rebootstrap", one_of=("rebootstrap", "none"))
    metadata_recovery_rebootstrap_trigger_ms: int = config_key(300_000, low=0, high=LONG_MAX)
    pk_response_max_bytes: int = config_key(268_435_456, low=1024, high=INT_MAX)

    def __repr__(self) -> str:
        keys = type(self).config_keys
        return repr_without(self, *(name for name, key in keys.items() if key.secret))

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.upper() in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether the client logs in by SASL."""
        return self.security_protocol.upper() in ("SASL_PLAINTEXT", "SASL_SSL")


def check_login(config: ClientConfig) -> None:
    """Check that a client with SASL configures its login. Raises ConfigError, without secrets."""
    if config.sasl_mechanism == "OAUTHBEARER":
        from pk.net.client.oauth import token_settings

        token_settings(config)
    elif config.sasl_mechanism == "GSSAPI":
        from pk.net.client.gssapi import kerberos_service

        kerberos_service(config)
    else:
        login_of(config)


def login_of(config: ClientConfig) -> tuple[str, str]:
    """Return the user and the password of a client that logs in by SASL, from `sasl.jaas.config` or
    `sasl.username` and `sasl.password`. Raises ConfigError, without secrets."""
    from pk.core.auth.jaas import PLAIN_LOGIN, SCRAM_LOGIN, JaasError, parse_jaas

    mechanism = config.sasl_mechanism
    if mechanism not in SASL_MECHANISMS:
        raise ConfigError(
            f"sasl.mechanism={mechanism}: pk does not support this mechanism; it supports "
            f"{', '.join(SASL_MECHANISMS)}"
        )
    user, password = config.sasl_username, config.sasl_password
    if config.sasl_jaas_config is not None:
        if user is not None or password is not None:
            raise ConfigError(
                "give sasl.jaas.config, or sasl.username and sasl.password, but not both"
            )
        try:
            login = parse_jaas(config.sasl_jaas_config)
        except JaasError as e:
            raise ConfigError(f"sasl.jaas.config: {e}") from None
        module = PLAIN_LOGIN if mechanism == "PLAIN" else SCRAM_LOGIN
        if login.module != module:
            raise ConfigError(f"sasl.jaas.config: the login module of {mechanism} must be {module}")
        user, password = login.username, login.password
    if not user or not password:
        raise ConfigError(
            f"{mechanism} needs a user and a password: sasl.username and sasl.password, or both in "
            "sasl.jaas.config"
        )
    return user, password


def has_token(config: ClientConfig) -> bool:
    """Return whether a client logs in with a delegation token: `tokenauth="true"` in
    `sasl.jaas.config`."""
    from pk.core.auth.jaas import parse_jaas

    if config.sasl_jaas_config is None:
        return False
    return parse_jaas(config.sasl_jaas_config).options.get("tokenauth", "").lower() == "true"
