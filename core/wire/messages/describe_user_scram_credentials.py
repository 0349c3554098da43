"""Lists which SCRAM credentials users have (KIP-554)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32


@struct
class UserName(Struct):
    """One of `DescribeUserScramCredentialsRequest.users`."""

    name: str = ""


@message(versions=(0, 0))
class DescribeUserScramCredentialsRequest(Request["DescribeUserScramCredentialsResponse"]):
    """The request of DescribeUserScramCredentials."""

    users: list[UserName] | None = field(default_factory=list, nullable=0)


@struct
class CredentialInfo(Struct):
    """One of `DescribeUserScramCredentialsResult.credential_infos`."""

    mechanism: Int8 = 0
    iterations: Int32 = 0


@struct
class DescribeUserScramCredentialsResult(Struct):
    """One of `DescribeUserScramCredentialsResponse.results`."""

    user: str = ""
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
    credential_infos: list[CredentialInfo] = field(default_factory=list)


@message(versions=(0, 0))
class DescribeUserScramCredentialsResponse(Response):
    """The response of DescribeUserScramCredentials."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)
