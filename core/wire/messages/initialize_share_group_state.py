"""Initializes the stored state of share partitions (KIP-932)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Uuid


@struct
class PartitionData(Struct):
    """One of `InitializeStateData.partitions`."""

    partition: Int32 = 0
    state_epoch: Int32 = 0
    start_offset: Int64 = 0


@struct
class InitializeStateData(Struct):
    """One of `InitializeShareGroupStateRequest.topics`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(versions=(0, 0))
class InitializeShareGroupStateRequest(Request["InitializeShareGroupStateResponse"]):
    """The request of InitializeShareGroupState."""

    group_id: str = ""
    topics: list[InitializeStateData] = field(default_factory=list)


@struct
class PartitionResult(Struct):
    """One of `InitializeStateResult.partitions`."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)


@struct
class InitializeStateResult(Struct):
    """One of `InitializeShareGroupStateResponse.results`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(versions=(0, 0))
class InitializeShareGroupStateResponse(Response):
    """The response of InitializeShareGroupState."""

    results: list[InitializeStateResult] = field(default_factory=list)
