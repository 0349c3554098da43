"""Describes quotas of users and client ids (KIP-546)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Float64, Int8, Int16, Int32


@struct
class ComponentData(Struct):
    """One of `DescribeClientQuotasRequest.components`."""

    entity_type: str = ""
    match_type: Int8 = 0
    match: str | None = field(default="", nullable=0)


@message(versions=(0, 1))
class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"]):
    """The request of DescribeClientQuotas."""

    components: list[ComponentData] = field(default_factory=list)
    strict: bool = False


@struct
class EntityData(Struct):
    """One of `EntryData.entity`."""

    entity_type: str = ""
    entity_name: str | None = field(default="", nullable=0)


@struct
class ValueData(Struct):
    """One of `EntryData.values`."""

    key: str = ""
    value: Float64 = 0.0


@struct
class EntryData(Struct):
    """One of `DescribeClientQuotasResponse.entries`."""

    entity: list[EntityData] = field(default_factory=list)
    values: list[ValueData] = field(default_factory=list)


@message(versions=(0, 1))
class DescribeClientQuotasResponse(Response):
    """The response of DescribeClientQuotas."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
    entries: list[EntryData] | None = field(default_factory=list, nullable=0)
