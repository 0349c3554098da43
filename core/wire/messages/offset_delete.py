"""Deletes committed offsets of a group (KIP-496)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32


@struct
class OffsetDeleteRequestPartition(Struct):
    """One of `OffsetDeleteRequestTopic.partitions`."""

    partition_index: Int32 = 0


@struct
class OffsetDeleteRequestTopic(Struct):
    """One of `OffsetDeleteRequest.topics`."""

    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)


@message(versions=(0, 0))
class OffsetDeleteRequest(Request["OffsetDeleteResponse"]):
    """The request of OffsetDelete."""

    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)


@struct
class OffsetDeleteResponsePartition(Struct):
    """One of `OffsetDeleteResponseTopic.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic(Struct):
    """One of `OffsetDeleteResponse.topics`."""

    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)


@message(versions=(0, 0))
class OffsetDeleteResponse(Response):
    """The response of OffsetDelete."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)
