"""SaslHandshake (17), versions 0–1, when not expected: on an authenticated connection, or on a
listener without SASL. core/auth/sasl_server.py handles it on a SASL listener."""

from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(context: Context, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Answer ILLEGAL_SASL_STATE."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
