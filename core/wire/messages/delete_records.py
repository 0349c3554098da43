"""Moves the start of partitions forward, so that earlier records can be deleted (KIP-107)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64


@struct
class DeleteRecordsPartition(Struct):
    """One of `DeleteRecordsTopic.partitions`."""

    partition_index: Int32 = 0
    offset: Int64 = 0


@struct
class DeleteRecordsTopic(Struct):
    """One of `DeleteRecordsRequest.topics`."""

    name: str = ""
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)


@message(versions=(0, 2))
class DeleteRecordsRequest(Request["DeleteRecordsResponse"]):
    """The request of DeleteRecords."""

    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: Int32 = 0


@struct
class DeleteRecordsPartitionResult(Struct):
    """One of `DeleteRecordsTopicResult.partitions`."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult(Struct):
    """One of `DeleteRecordsResponse.topics`."""

    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)


@message(versions=(0, 2))
class DeleteRecordsResponse(Response):
    """The response of DeleteRecords."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)
