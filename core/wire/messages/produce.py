"""Appends record batches to partitions. v3 adds magic 2 and transactions (KIP-98), v8 errors of
records (KIP-467), v10 the current leader (KIP-951), v13 topic ids (KIP-516).

v0 to v2 have records in the formats before magic 2.
"""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Records, Uuid


@struct
class PartitionProduceData(Struct):
    """One of `TopicProduceData.partition_data`."""

    index: Int32 = 0
    records: Records = field(default=None, nullable=0)


@struct
class TopicProduceData(Struct):
    """One of `ProduceRequest.topic_data`."""

    name: str = field(default="", until=12, ignorable=True)
    topic_id: Uuid = field(default=ZERO_UUID, since=13, ignorable=True)
    partition_data: list[PartitionProduceData] = field(default_factory=list)


@message(versions=(0, 13))
class ProduceRequest(Request["ProduceResponse"]):
    """The request of Produce."""

    transactional_id: str | None = field(default=None, since=3, nullable=3)
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = field(default_factory=list)


@struct
class BatchIndexAndErrorMessage(Struct):
    """One of `PartitionProduceResponse.record_errors`."""

    batch_index: Int32 = field(default=0, since=8)
    batch_index_error_message: str | None = field(default=None, since=8, nullable=8)


@struct
class LeaderIdAndEpoch(Struct):
    """The value of `PartitionProduceResponse.current_leader`."""

    leader_id: Int32 = field(default=-1, since=10)
    leader_epoch: Int32 = field(default=-1, since=10)


@struct
class PartitionProduceResponse(Struct):
    """One of `TopicProduceResponse.partition_responses`."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = field(default=-1, since=2, ignorable=True)
    log_start_offset: Int64 = field(default=-1, since=5, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field(
        default_factory=list, since=8, ignorable=True
    )
    error_message: str | None = field(default=None, since=8, nullable=8, ignorable=True)
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch, since=10, tag=0)


@struct
class TopicProduceResponse(Struct):
    """One of `ProduceResponse.responses`."""

    name: str = field(default="", until=12, ignorable=True)
    topic_id: Uuid = field(default=ZERO_UUID, since=13, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)


@struct
class NodeEndpoint(Struct):
    """One of `ProduceResponse.node_endpoints`."""

    node_id: Int32 = field(default=0, since=10)
    host: str = field(default="", since=10)
    port: Int32 = field(default=0, since=10)
    rack: str | None = field(default=None, since=10, nullable=10)


@message(versions=(0, 13))
class ProduceResponse(Response):
    """The response of Produce."""

    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list, since=10, tag=0)
