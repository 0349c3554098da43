"""Changes quotas of users and client ids (KIP-546)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Float64, Int16, Int32


@struct
class EntityData(Struct):
    """One of `EntryData.entity`."""

    entity_type: str = ""
    entity_name: str | None = field(default="", nullable=0)


@struct
class OpData(Struct):
    """One of `EntryData.ops`."""

    key: str = ""
    value: Float64 = 0.0
    remove: bool = False


@struct
class EntryData(Struct):
    """One of `AlterClientQuotasRequest.entries`."""

    entity: list[EntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)


@message(versions=(0, 1))
class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"]):
    """The request of AlterClientQuotas."""

    entries: list[EntryData] = field(default_factory=list)
    validate_only: bool = False


@struct
class ResponseEntryData(Struct):
    """One of `AlterClientQuotasResponse.entries`."""

    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
    entity: list[EntityData] = field(default_factory=list)


@message(versions=(0, 1))
class AlterClientQuotasResponse(Response):
    """The response of AlterClientQuotas."""

    throttle_time_ms: Int32 = 0
    entries: list[ResponseEntryData] = field(default_factory=list)
