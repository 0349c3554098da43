"""Sets and deletes single configs, and adds to and removes from those that are lists (KIP-339)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32


@struct
class AlterableConfig(Struct):
    """One of `AlterConfigsResource.configs`."""

    name: str = ""
    config_operation: Int8 = 0
    value: str | None = field(default="", nullable=0, secret=True)


@struct
class AlterConfigsResource(Struct):
    """One of `IncrementalAlterConfigsRequest.resources`."""

    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = field(default_factory=list)


@message(versions=(0, 1))
class IncrementalAlterConfigsRequest(Request["IncrementalAlterConfigsResponse"]):
    """The request of IncrementalAlterConfigs."""

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False


@struct
class AlterConfigsResourceResponse(Struct):
    """One of `IncrementalAlterConfigsResponse.responses`."""

    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
    resource_type: Int8 = 0
    resource_name: str = ""


@message(versions=(0, 1))
class IncrementalAlterConfigsResponse(Response):
    """The response of IncrementalAlterConfigs."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
