"""Describes topics page by page, with the eligible leader replicas of their partitions
(KIP-966)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Uuid


@struct
class TopicRequest(Struct):
    """One of `DescribeTopicPartitionsRequest.topics`."""

    name: str = ""


@struct
class Cursor(Struct):
    """The value of `DescribeTopicPartitionsRequest.cursor`."""

    topic_name: str = ""
    partition_index: Int32 = 0


@message(versions=(0, 0))
class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"]):
    """The request of DescribeTopicPartitions."""

    topics: list[TopicRequest] = field(default_factory=list)
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = field(default=None, nullable=0)


@struct
class DescribeTopicPartitionsResponsePartition(Struct):
    """One of `DescribeTopicPartitionsResponseTopic.partitions`."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32] = field(default_factory=list)
    isr_nodes: list[Int32] = field(default_factory=list)
    eligible_leader_replicas: list[Int32] | None = field(default=None, nullable=0)
    last_known_elr: list[Int32] | None = field(default=None, nullable=0)
    offline_replicas: list[Int32] = field(default_factory=list)


@struct
class DescribeTopicPartitionsResponseTopic(Struct):
    """One of `DescribeTopicPartitionsResponse.topics`."""

    error_code: Int16 = 0
    name: str | None = field(default="", nullable=0)
    topic_id: Uuid = ZERO_UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default_factory=list)
    topic_authorized_operations: Int32 = -2147483648


@message(versions=(0, 0))
class DescribeTopicPartitionsResponse(Response):
    """The response of DescribeTopicPartitions."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: Cursor | None = field(default=None, nullable=0)
