"""The identity of the client whose request is in an Envelope (KIP-590): its principal and its
address."""

from ipaddress import ip_address
from struct import Struct
from struct import error as StructError
from typing import Final

from pk.core.auth.principal import KafkaPrincipal
from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.wire.codec import decode_whole, encode
from pk.core.wire.messages.principal import DefaultPrincipalData

_VERSION: Final = Struct(">h")
_PRINCIPAL_VERSION: Final = 0


def principal_bytes(principal: KafkaPrincipal) -> bytes:
    """Encode a principal like Kafka's own principal builder: int16 version, then the message."""
    data = DefaultPrincipalData(
        type=principal.type,
        name=principal.name,
        token_authenticated=principal.token_authenticated,
    )
    return _VERSION.pack(_PRINCIPAL_VERSION) + encode(data, _PRINCIPAL_VERSION)


def principal_of(data: bytes | None) -> KafkaPrincipal:
    """Decode a principal. Raises KafkaError(PRINCIPAL_DESERIALIZATION_FAILURE)."""
    try:
        (version,) = _VERSION.unpack_from(data or b"")
        if version != _PRINCIPAL_VERSION:
            raise ProtocolError(f"unsupported version {version}")
        found = decode_whole(DefaultPrincipalData, (data or b"")[2:], version)
    except (StructError, ProtocolError) as e:
        raise KafkaError(
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
            f"cannot decode the envelope's principal: {e}",
        ) from e
    return KafkaPrincipal(found.type, found.name, found.token_authenticated)


def address_bytes(host: str) -> bytes:
    """Encode a client's address (`/127.0.0.1`) as its 4 or 16 bytes; empty for an invalid
    address."""
    try:
        return ip_address(host.removeprefix("/").partition("%")[0]).packed
    except ValueError:
        return b""


def host_of(address: bytes) -> str:
    """Decode an address of 4 or 16 bytes to a form like `/127.0.0.1`; empty for no bytes. Raises
    KafkaError(INVALID_REQUEST)."""
    if not address:
        return ""
    try:
        return f"/{ip_address(address)}"
    except ValueError as e:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"the envelope's client address is invalid: {e}"
        ) from e
