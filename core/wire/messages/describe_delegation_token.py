"""Lists delegation tokens (KIP-48). v3 adds the requester of each (KIP-373)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64


@struct
class DescribeDelegationTokenOwner(Struct):
    """One of `DescribeDelegationTokenRequest.owners`."""

    principal_type: str = ""
    principal_name: str = ""


@message(versions=(1, 3))
class DescribeDelegationTokenRequest(Request["DescribeDelegationTokenResponse"]):
    """The request of DescribeDelegationToken."""

    owners: list[DescribeDelegationTokenOwner] | None = field(default_factory=list, nullable=0)


@struct
class DescribedDelegationTokenRenewer(Struct):
    """One of `DescribedDelegationToken.renewers`."""

    principal_type: str = ""
    principal_name: str = ""


@struct
class DescribedDelegationToken(Struct):
    """One of `DescribeDelegationTokenResponse.tokens`."""

    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = field(default="", since=3)
    token_requester_principal_name: str = field(default="", since=3)
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: str = ""
    hmac: bytes = field(default=b"", secret=True)
    renewers: list[DescribedDelegationTokenRenewer] = field(default_factory=list)


@message(versions=(1, 3))
class DescribeDelegationTokenResponse(Response):
    """The response of DescribeDelegationToken."""

    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = field(default_factory=list)
    throttle_time_ms: Int32 = 0
