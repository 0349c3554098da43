"""Chooses a SASL mechanism. After v0 the client sends raw SASL bytes, after v1 SaslAuthenticate
requests (KIP-152)."""

from pk.core.wire.schema import Request, Response, field, message
from pk.core.wire.types import Int16


@message(versions=(0, 1))
class SaslHandshakeRequest(Request["SaslHandshakeResponse"]):
    """The request of SaslHandshake."""

    mechanism: str = ""


@message(versions=(0, 1))
class SaslHandshakeResponse(Response):
    """The response of SaslHandshake."""

    error_code: Int16 = 0
    mechanisms: list[str] = field(default_factory=list)
