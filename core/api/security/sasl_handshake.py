"""SaslHandshake (17), versions 0–1, at a time when it is not expected: on an authenticated
connection, or on a listener without SASL. On a SASL listener, core/auth/sasl_server.py handles the
expected one."""

from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(context: Context, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Return ILLEGAL_SASL_STATE."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
