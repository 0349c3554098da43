"""Reads the start offsets of share partitions (KIP-932). v1 adds completed deliveries
(KIP-1226)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Uuid


@struct
class PartitionData(Struct):
    """One of `ReadStateSummaryData.partitions`."""

    partition: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class ReadStateSummaryData(Struct):
    """One of `ReadShareGroupStateSummaryRequest.topics`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(versions=(0, 1))
class ReadShareGroupStateSummaryRequest(Request["ReadShareGroupStateSummaryResponse"]):
    """The request of ReadShareGroupStateSummary."""

    group_id: str = ""
    topics: list[ReadStateSummaryData] = field(default_factory=list)


@struct
class PartitionResult(Struct):
    """One of `ReadStateSummaryResult.partitions`."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(default=-1, since=1, ignorable=True)


@struct
class ReadStateSummaryResult(Struct):
    """One of `ReadShareGroupStateSummaryResponse.results`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(versions=(0, 1))
class ReadShareGroupStateSummaryResponse(Response):
    """The response of ReadShareGroupStateSummary."""

    results: list[ReadStateSummaryResult] = field(default_factory=list)
