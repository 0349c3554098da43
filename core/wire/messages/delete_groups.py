"""Deletes groups that have no members (KIP-229)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32


@message(versions=(0, 2))
class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    """The request of DeleteGroups."""

    groups_names: list[str] = field(default_factory=list)


@struct
class DeletableGroupResult(Struct):
    """One of `DeleteGroupsResponse.results`."""

    group_id: str = ""
    error_code: Int16 = 0


@message(versions=(0, 2))
class DeleteGroupsResponse(Response):
    """The response of DeleteGroups."""

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = field(default_factory=list)
