"""Lists access rules that match a filter (KIP-140). v1 adds pattern types (KIP-290), v3 user
resources (KIP-373)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32


@message(versions=(0, 3))
class DescribeAclsRequest(Request["DescribeAclsResponse"]):
    """The request of DescribeAcls."""

    resource_type_filter: Int8 = 0
    resource_name_filter: str | None = field(default="", nullable=0)
    pattern_type_filter: Int8 = field(default=3, since=1)
    principal_filter: str | None = field(default="", nullable=0)
    host_filter: str | None = field(default="", nullable=0)
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class AclDescription(Struct):
    """One of `DescribeAclsResource.acls`."""

    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class DescribeAclsResource(Struct):
    """One of `DescribeAclsResponse.resources`."""

    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = field(default=3, since=1)
    acls: list[AclDescription] = field(default_factory=list)


@message(versions=(0, 3))
class DescribeAclsResponse(Response):
    """The response of DescribeAcls."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
    resources: list[DescribeAclsResource] = field(default_factory=list)
