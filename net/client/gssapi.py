"""Parses a client's config for logging in with Kerberos: Kafka's keys, and the options of Java's
Krb5LoginModule."""

from __future__ import annotations

from typing import Protocol

import trio

from pk.core.auth.gssapi import GssapiClient
from pk.core.auth.jaas import JaasError
from pk.core.auth.kerberos_login import KerberosLogin
from pk.core.auth.sasl import SaslError
from pk.net.client.errors import ConfigError
from pk.net.kerberos import KerberosUnavailable, initiating, library


class KerberosKeys(Protocol):
    """The keys of a `ClientConfig` that this module reads."""

    @property
    def sasl_jaas_config(self) -> str | None: ...
    @property
    def sasl_username(self) -> str | None: ...
    @property
    def sasl_password(self) -> str | None: ...
    @property
    def sasl_kerberos_service_name(self) -> str | None: ...


def kerberos_service(config: KerberosKeys) -> tuple[KerberosLogin, str]:
    """Return the settings of the login, and the Kerberos name of the brokers. Raises
    ConfigError."""
    if config.sasl_username is not None or config.sasl_password is not None:
        raise ConfigError(
            "GSSAPI, the default of sasl.mechanism, does not use sasl.username and sasl.password: "
            "set sasl.mechanism to one that the listener enables"
        )
    if config.sasl_jaas_config is None:
        # the ticket that `kinit` obtained
        login = KerberosLogin(None, None, None, None)
    else:
        try:
            login = KerberosLogin.parse(config.sasl_jaas_config)
        except JaasError as e:
            raise ConfigError(f"sasl.jaas.config: {e}") from None
    try:
        service = login.service(config.sasl_kerberos_service_name)
        library()
    except (JaasError, KerberosUnavailable) as e:
        raise ConfigError(f"sasl.mechanism=GSSAPI: {e}") from None
    return login, service


async def gssapi_client(config: KerberosKeys, host: str) -> GssapiClient:
    """Return the client side of a login to a broker on `host`. Raises ConfigError, and SaslError if
    there is no ticket."""
    login, service = kerberos_service(config)
    try:
        context = await trio.to_thread.run_sync(
            initiating, login, service, host, abandon_on_cancel=True
        )
    except KerberosUnavailable as e:
        raise SaslError(str(e)) from None
    return GssapiClient(context)
