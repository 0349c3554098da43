"""SaslHandshake (17), versions 0–1, where it is out of place: on a connection that is
authenticated, or whose listener does not ask for it. What a SASL listener does with it:
core/auth/sasl_server.py."""

from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(context: Context, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Answer ILLEGAL_SASL_STATE."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
