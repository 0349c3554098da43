"""Replaces all configs of a resource (KIP-133). IncrementalAlterConfigs, which changes single
configs, supersedes it."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32


@struct
class AlterableConfig(Struct):
    """One of `AlterConfigsResource.configs`."""

    name: str = ""
    value: str | None = field(default="", nullable=0, secret=True)


@struct
class AlterConfigsResource(Struct):
    """One of `AlterConfigsRequest.resources`."""

    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = field(default_factory=list)


@message(versions=(0, 2))
class AlterConfigsRequest(Request["AlterConfigsResponse"]):
    """The request of AlterConfigs."""

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False


@struct
class AlterConfigsResourceResponse(Struct):
    """One of `AlterConfigsResponse.responses`."""

    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
    resource_type: Int8 = 0
    resource_name: str = ""


@message(versions=(0, 2))
class AlterConfigsResponse(Response):
    """The response of AlterConfigs."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
