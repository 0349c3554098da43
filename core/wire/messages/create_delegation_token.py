"""Creates a delegation token (KIP-48). v3 allows another owner (KIP-373)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64


@struct
class CreatableRenewers(Struct):
    """One of `CreateDelegationTokenRequest.renewers`."""

    principal_type: str = ""
    principal_name: str = ""


@message(versions=(1, 3))
class CreateDelegationTokenRequest(Request["CreateDelegationTokenResponse"]):
    """The request of CreateDelegationToken."""

    owner_principal_type: str | None = field(default="", since=3, nullable=3)
    owner_principal_name: str | None = field(default="", since=3, nullable=3)
    renewers: list[CreatableRenewers] = field(default_factory=list)
    max_lifetime_ms: Int64 = 0


@message(versions=(1, 3))
class CreateDelegationTokenResponse(Response):
    """The response of CreateDelegationToken."""

    error_code: Int16 = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = field(default="", since=3)
    token_requester_principal_name: str = field(default="", since=3)
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: str = ""
    hmac: bytes = field(default=b"", secret=True)
    throttle_time_ms: Int32 = 0
