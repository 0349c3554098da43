"""Creates access rules (KIP-140). v1 adds pattern types (KIP-290), v3 user resources (KIP-373)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32


@struct
class AclCreation(Struct):
    """One of `CreateAclsRequest.creations`."""

    resource_type: Int8 = 0
    resource_name: str = ""
    resource_pattern_type: Int8 = field(default=3, since=1)
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(versions=(0, 3))
class CreateAclsRequest(Request["CreateAclsResponse"]):
    """The request of CreateAcls."""

    creations: list[AclCreation] = field(default_factory=list)


@struct
class AclCreationResult(Struct):
    """One of `CreateAclsResponse.results`."""

    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)


@message(versions=(0, 3))
class CreateAclsResponse(Response):
    """The response of CreateAcls."""

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = field(default_factory=list)
