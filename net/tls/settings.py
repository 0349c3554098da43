"""The `ssl.*` settings of one listener or client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from msgspec import Struct

from pk.core.structs import repr_without

KEYS: Final = (
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""The keys that pk supports; `ssl.principal.mapping.rules` is in core/auth."""

CLIENT_KEYS: Final = tuple(key for key in KEYS if key != "ssl.client.auth")
"""The keys for clients."""


class TlsSettings(Struct, frozen=True):
    """The values of `KEYS`."""

    cipher_suites: tuple[str, ...] = ()
    client_auth: str = "none"
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    endpoint_identification_algorithm: str = "https"
    key_password: str | None = None
    keystore_certificate_chain: str | None = None
    keystore_key: str | None = None
    keystore_location: str | None = None
    keystore_password: str | None = None
    keystore_type: str = "JKS"
    truststore_certificates: str | None = None
    truststore_location: str | None = None
    truststore_password: str | None = None
    truststore_type: str = "JKS"

    def __repr__(self) -> str:
        return repr_without(
            self,
            "key_password",
            "keystore_certificate_chain",
            "keystore_key",
            "keystore_password",
            "truststore_certificates",
            "truststore_password",
        )

    @classmethod
    def of(cls, value_of: Callable[[str], object]) -> TlsSettings:
        """Return the settings with the values that `value_of` returns for Kafka's names."""
        given: dict[str, Any] = {
            key.removeprefix("ssl.").replace(".", "_"): cast(Any, value_of(key)) for key in KEYS
        }
        return cls(**{name: value for name, value in given.items() if value is not None})

    @property
    def has_keystore(self) -> bool:
        """Whether a key and its certificates are configured."""
        return bool(self.keystore_location or self.keystore_key)

    @property
    def has_truststore(self) -> bool:
        """Whether trusted certificates are configured."""
        return bool(self.truststore_location or self.truststore_certificates)

    @property
    def files(self) -> tuple[str, ...]:
        """The files from which the context is created."""
        return tuple(filter(None, (self.keystore_location, self.truststore_location)))
