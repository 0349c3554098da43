"""TLS to etcd's servers, configured by the keys `pk.etcd.ssl.*`: PEM files, reloaded when they
change."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable

from pk.core.config import BrokerConfig
from pk.net.endpoints import StartError
from pk.net.tls.contexts import CurrentContext, TlsError, client_context
from pk.net.tls.settings import TlsSettings


def tls_of(config: BrokerConfig) -> Callable[[], Awaitable[ssl.SSLContext]] | None:
    """Return a function that returns the TLS context for the next connection; None if connections
    are plain. Raises StartError if the files cannot be used now."""
    if config.pk_etcd_ssl_truststore_location is None:
        if config.pk_etcd_ssl_keystore_location is not None:
            raise StartError(
                "pk.etcd.ssl.keystore.location needs pk.etcd.ssl.truststore.location: without it "
                "connections to etcd are not encrypted"
            )
        return None
    settings = TlsSettings(
        truststore_type="PEM",
        truststore_location=config.pk_etcd_ssl_truststore_location,
        keystore_type="PEM",
        keystore_location=config.pk_etcd_ssl_keystore_location,
        key_password=config.pk_etcd_ssl_key_password,
    )
    try:
        client_context(settings)
    except TlsError as e:
        raise StartError(f"pk.etcd.ssl: {e}") from e
    return CurrentContext(lambda: settings, client_context, "etcd").get
