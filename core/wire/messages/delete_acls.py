"""Deletes access rules that match filters (KIP-140). v1 adds pattern types (KIP-290), v3 user
resources (KIP-373)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32


@struct
class DeleteAclsFilter(Struct):
    """One of `DeleteAclsRequest.filters`."""

    resource_type_filter: Int8 = 0
    resource_name_filter: str | None = field(default="", nullable=0)
    pattern_type_filter: Int8 = field(default=3, since=1)
    principal_filter: str | None = field(default="", nullable=0)
    host_filter: str | None = field(default="", nullable=0)
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(versions=(0, 3))
class DeleteAclsRequest(Request["DeleteAclsResponse"]):
    """The request of DeleteAcls."""

    filters: list[DeleteAclsFilter] = field(default_factory=list)


@struct
class DeleteAclsMatchingAcl(Struct):
    """One of `DeleteAclsFilterResult.matching_acls`."""

    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = field(default=3, since=1)
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class DeleteAclsFilterResult(Struct):
    """One of `DeleteAclsResponse.filter_results`."""

    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)


@message(versions=(0, 3))
class DeleteAclsResponse(Response):
    """The response of DeleteAcls."""

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)
