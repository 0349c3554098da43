"""Renews a delegation token (KIP-48)."""

from pk.core.wire.schema import Request, Response, field, message
from pk.core.wire.types import Int16, Int32, Int64


@message(versions=(1, 2))
class RenewDelegationTokenRequest(Request["RenewDelegationTokenResponse"]):
    """The request of RenewDelegationToken."""

    hmac: bytes = field(default=b"", secret=True)
    renew_period_ms: Int64 = 0


@message(versions=(1, 2))
class RenewDelegationTokenResponse(Response):
    """The response of RenewDelegationToken."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
