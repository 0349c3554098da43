"""Carries one step of a SASL exchange (KIP-152). v1 adds the lifetime of the session (KIP-368)."""

from pk.core.wire.schema import Request, Response, field, message
from pk.core.wire.types import Int16, Int64


@message(versions=(0, 2))
class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"]):
    """The request of SaslAuthenticate."""

    auth_bytes: bytes = field(default=b"", secret=True)


@message(versions=(0, 2))
class SaslAuthenticateResponse(Response):
    """The response of SaslAuthenticate."""

    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
    auth_bytes: bytes = field(default=b"", secret=True)
    session_lifetime_ms: Int64 = field(default=0, since=1, ignorable=True)
