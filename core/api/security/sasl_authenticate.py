"""SaslAuthenticate (36), versions 0–2, at a time when it is not expected (see SaslHandshake)."""

from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


def handle(context: Context, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Return ILLEGAL_SASL_STATE."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
