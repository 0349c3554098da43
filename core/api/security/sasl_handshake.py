"""SaslHandshake (17), versions 0–1, and SaslAuthenticate (36), versions 0–2, where they are out of
place: a connection that is authenticated, or whose listener does not ask for it. What a SASL
listener does with them: core/auth/sasl_server.py."""

from pk.core.api.registry import Api
from pk.core.auth.sasl_server import (
    AUTHENTICATE_VERSIONS,
    HANDSHAKE_VERSIONS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from pk.core.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handshake(context: Context, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Answer ILLEGAL_SASL_STATE."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def authenticate(context: Context, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Answer ILLEGAL_SASL_STATE."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )


HANDSHAKE_API = Api(key=SASL_HANDSHAKE, versions=HANDSHAKE_VERSIONS, handle=handshake)
AUTHENTICATE_API = Api(key=SASL_AUTHENTICATE, versions=AUTHENTICATE_VERSIONS, handle=authenticate)
