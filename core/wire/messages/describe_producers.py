"""Lists the producers that write to partitions (KIP-664)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64


@struct
class TopicRequest(Struct):
    """One of `DescribeProducersRequest.topics`."""

    name: str = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@message(versions=(0, 0))
class DescribeProducersRequest(Request["DescribeProducersResponse"]):
    """The request of DescribeProducers."""

    topics: list[TopicRequest] = field(default_factory=list)


@struct
class ProducerState(Struct):
    """One of `PartitionResponse.active_producers`."""

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@struct
class PartitionResponse(Struct):
    """One of `TopicResponse.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    active_producers: list[ProducerState] = field(default_factory=list)


@struct
class TopicResponse(Struct):
    """One of `DescribeProducersResponse.topics`."""

    name: str = ""
    partitions: list[PartitionResponse] = field(default_factory=list)


@message(versions=(0, 0))
class DescribeProducersResponse(Response):
    """The response of DescribeProducers."""

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = field(default_factory=list)
