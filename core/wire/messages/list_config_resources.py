"""Lists resources that have configs (KIP-1142); v0 lists only those for client metrics
(KIP-714)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32


@message(versions=(0, 1))
class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"]):
    """The request of ListConfigResources."""

    resource_types: list[Int8] = field(default_factory=list, since=1)


@struct
class ConfigResource(Struct):
    """One of `ListConfigResourcesResponse.config_resources`."""

    resource_name: str = ""
    resource_type: Int8 = field(default=16, since=1, ignorable=True)


@message(versions=(0, 1))
class ListConfigResourcesResponse(Response):
    """The response of ListConfigResources."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = field(default_factory=list)
