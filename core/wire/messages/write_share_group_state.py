"""Stores the state of share partitions (KIP-932). v1 adds completed deliveries (KIP-1226)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64, Uuid


@struct
class StateBatch(Struct):
    """One of `PartitionData.state_batches`."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@struct
class PartitionData(Struct):
    """One of `WriteStateData.partitions`."""

    partition: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(default=-1, since=1, ignorable=True)
    state_batches: list[StateBatch] = field(default_factory=list)


@struct
class WriteStateData(Struct):
    """One of `WriteShareGroupStateRequest.topics`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(versions=(0, 1))
class WriteShareGroupStateRequest(Request["WriteShareGroupStateResponse"]):
    """The request of WriteShareGroupState."""

    group_id: str = ""
    topics: list[WriteStateData] = field(default_factory=list)


@struct
class PartitionResult(Struct):
    """One of `WriteStateResult.partitions`."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)


@struct
class WriteStateResult(Struct):
    """One of `WriteShareGroupStateResponse.results`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(versions=(0, 1))
class WriteShareGroupStateResponse(Response):
    """The response of WriteShareGroupState."""

    results: list[WriteStateResult] = field(default_factory=list)
