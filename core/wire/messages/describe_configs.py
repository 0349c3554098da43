"""Describes configs of topics, brokers and groups (KIP-133). v1 adds synonyms (KIP-226), v3 types
and documentation (KIP-569)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32


@struct
class DescribeConfigsResource(Struct):
    """One of `DescribeConfigsRequest.resources`."""

    resource_type: Int8 = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = field(default_factory=list, nullable=0)


@message(versions=(0, 4))
class DescribeConfigsRequest(Request["DescribeConfigsResponse"]):
    """The request of DescribeConfigs."""

    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: bool = field(default=False, since=1)
    include_documentation: bool = field(default=False, since=3)


@struct
class DescribeConfigsSynonym(Struct):
    """One of `DescribeConfigsResourceResult.synonyms`."""

    name: str = field(default="", since=1)
    value: str | None = field(default="", since=1, nullable=0)
    source: Int8 = field(default=0, since=1)


@struct
class DescribeConfigsResourceResult(Struct):
    """One of `DescribeConfigsResult.configs`."""

    name: str = ""
    value: str | None = field(default="", nullable=0)
    read_only: bool = False
    is_default: bool = field(default=False, until=0, ignorable=True)
    config_source: Int8 = field(default=-1, since=1, ignorable=True)
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list, since=1, ignorable=True)
    config_type: Int8 = field(default=0, since=3, ignorable=True)
    documentation: str | None = field(default="", since=3, nullable=0, ignorable=True)


@struct
class DescribeConfigsResult(Struct):
    """One of `DescribeConfigsResponse.results`."""

    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)


@message(versions=(0, 4))
class DescribeConfigsResponse(Response):
    """The response of DescribeConfigs."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)
