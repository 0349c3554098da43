"""Changes when a delegation token expires, or removes it (KIP-48)."""

from pk.core.wire.schema import Request, Response, field, message
from pk.core.wire.types import Int16, Int32, Int64


@message(versions=(1, 2))
class ExpireDelegationTokenRequest(Request["ExpireDelegationTokenResponse"]):
    """The request of ExpireDelegationToken."""

    hmac: bytes = field(default=b"", secret=True)
    expiry_time_period_ms: Int64 = 0


@message(versions=(1, 2))
class ExpireDelegationTokenResponse(Response):
    """The response of ExpireDelegationToken."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
