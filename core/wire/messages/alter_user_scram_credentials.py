"""Changes SCRAM credentials of users (KIP-554)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32


@struct
class ScramCredentialDeletion(Struct):
    """One of `AlterUserScramCredentialsRequest.deletions`."""

    name: str = ""
    mechanism: Int8 = 0


@struct
class ScramCredentialUpsertion(Struct):
    """One of `AlterUserScramCredentialsRequest.upsertions`."""

    name: str = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: bytes = field(default=b"", secret=True)
    salted_password: bytes = field(default=b"", secret=True)


@message(versions=(0, 0))
class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"]):
    """The request of AlterUserScramCredentials."""

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


@struct
class AlterUserScramCredentialsResult(Struct):
    """One of `AlterUserScramCredentialsResponse.results`."""

    user: str = ""
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)


@message(versions=(0, 0))
class AlterUserScramCredentialsResponse(Response):
    """The response of AlterUserScramCredentials."""

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)
