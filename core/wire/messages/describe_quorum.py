"""Describes the metadata quorum (KIP-595). v1 adds timestamps (KIP-836), v2 nodes and directory ids
(KIP-853)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Uint16, Uuid


@struct
class PartitionData(Struct):
    """One of `TopicData.partitions`."""

    partition_index: Int32 = 0


@struct
class TopicData(Struct):
    """One of `DescribeQuorumRequest.topics`."""

    topic_name: str = ""
    partitions: list[PartitionData] = field(default_factory=list)


@message(versions=(0, 2))
class DescribeQuorumRequest(Request["DescribeQuorumResponse"]):
    """The request of DescribeQuorum."""

    topics: list[TopicData] = field(default_factory=list)


@struct
class ReplicaState(Struct):
    """One of `ResponsePartitionData.current_voters`."""

    replica_id: Int32 = 0
    replica_directory_id: Uuid = field(default=ZERO_UUID, since=2)
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Int64 = field(default=-1, since=1, ignorable=True)
    last_caught_up_timestamp: Int64 = field(default=-1, since=1, ignorable=True)


@struct
class ResponsePartitionData(Struct):
    """One of `ResponseTopicData.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default="", since=2, nullable=2, ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[ReplicaState] = field(default_factory=list)
    observers: list[ReplicaState] = field(default_factory=list)


@struct
class ResponseTopicData(Struct):
    """One of `DescribeQuorumResponse.topics`."""

    topic_name: str = ""
    partitions: list[ResponsePartitionData] = field(default_factory=list)


@struct
class Listener(Struct):
    """One of `Node.listeners`."""

    name: str = field(default="", since=2)
    host: str = field(default="", since=2)
    port: Uint16 = field(default=0, since=2)


@struct
class Node(Struct):
    """One of `DescribeQuorumResponse.nodes`."""

    node_id: Int32 = field(default=0, since=2)
    listeners: list[Listener] = field(default_factory=list, since=2)


@message(versions=(0, 2))
class DescribeQuorumResponse(Response):
    """The response of DescribeQuorum."""

    error_code: Int16 = 0
    error_message: str | None = field(default="", since=2, nullable=2, ignorable=True)
    topics: list[ResponseTopicData] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list, since=2)
