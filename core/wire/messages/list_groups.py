"""Lists the groups that a broker coordinates. v4 adds states (KIP-518), v5 types (KIP-848)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32


@message(versions=(0, 5))
class ListGroupsRequest(Request["ListGroupsResponse"]):
    """The request of ListGroups."""

    states_filter: list[str] = field(default_factory=list, since=4)
    types_filter: list[str] = field(default_factory=list, since=5)


@struct
class ListedGroup(Struct):
    """One of `ListGroupsResponse.groups`."""

    group_id: str = ""
    protocol_type: str = ""
    group_state: str = field(default="", since=4, ignorable=True)
    group_type: str = field(default="", since=5, ignorable=True)


@message(versions=(0, 5))
class ListGroupsResponse(Response):
    """The response of ListGroups."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    error_code: Int16 = 0
    groups: list[ListedGroup] = field(default_factory=list)
