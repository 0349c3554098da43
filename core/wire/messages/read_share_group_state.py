"""Reads the stored state of share partitions (KIP-932)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64, Uuid


@struct
class PartitionData(Struct):
    """One of `ReadStateData.partitions`."""

    partition: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class ReadStateData(Struct):
    """One of `ReadShareGroupStateRequest.topics`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(versions=(0, 0))
class ReadShareGroupStateRequest(Request["ReadShareGroupStateResponse"]):
    """The request of ReadShareGroupState."""

    group_id: str = ""
    topics: list[ReadStateData] = field(default_factory=list)


@struct
class StateBatch(Struct):
    """One of `PartitionResult.state_batches`."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@struct
class PartitionResult(Struct):
    """One of `ReadStateResult.partitions`."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: list[StateBatch] = field(default_factory=list)


@struct
class ReadStateResult(Struct):
    """One of `ReadShareGroupStateResponse.results`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(versions=(0, 0))
class ReadShareGroupStateResponse(Response):
    """The response of ReadShareGroupState."""

    results: list[ReadStateResult] = field(default_factory=list)
