"""Deletes the stored state of share partitions (KIP-932)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Uuid


@struct
class PartitionData(Struct):
    """One of `DeleteStateData.partitions`."""

    partition: Int32 = 0


@struct
class DeleteStateData(Struct):
    """One of `DeleteShareGroupStateRequest.topics`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(versions=(0, 0))
class DeleteShareGroupStateRequest(Request["DeleteShareGroupStateResponse"]):
    """The request of DeleteShareGroupState."""

    group_id: str = ""
    topics: list[DeleteStateData] = field(default_factory=list)


@struct
class PartitionResult(Struct):
    """One of `DeleteStateResult.partitions`."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)


@struct
class DeleteStateResult(Struct):
    """One of `DeleteShareGroupStateResponse.results`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(versions=(0, 0))
class DeleteShareGroupStateResponse(Response):
    """The response of DeleteShareGroupState."""

    results: list[DeleteStateResult] = field(default_factory=list)
