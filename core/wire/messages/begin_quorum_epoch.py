"""Tells voters who leads the metadata quorum (KIP-595). v1 endpoints (KIP-853).

Api key 53; Apache Kafka 4.3.1 serves versions 0 to 1.
"""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Uint16, Uuid


@struct
class PartitionData(Struct):
    """One of `TopicData.partitions`."""

    partition_index: Int32 = 0
    voter_directory_id: Uuid = field(default=ZERO_UUID, since=1, ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class TopicData(Struct):
    """One of `BeginQuorumEpochRequest.topics`."""

    topic_name: str = ""
    partitions: list[PartitionData] = field(default_factory=list)


@struct
class LeaderEndpoint(Struct):
    """One of `BeginQuorumEpochRequest.leader_endpoints`."""

    name: str = field(default="", since=1)
    host: str = field(default="", since=1)
    port: Uint16 = field(default=0, since=1)


@message(versions=(0, 1), flexible=1, key=53)
class BeginQuorumEpochRequest(Request["BeginQuorumEpochResponse"]):
    """The request of BeginQuorumEpoch."""

    cluster_id: str | None = field(default=None, nullable=0)
    voter_id: Int32 = field(default=-1, since=1, ignorable=True)
    topics: list[TopicData] = field(default_factory=list)
    leader_endpoints: list[LeaderEndpoint] = field(default_factory=list, since=1, ignorable=True)


@struct
class ResponsePartitionData(Struct):
    """One of `ResponseTopicData.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class ResponseTopicData(Struct):
    """One of `BeginQuorumEpochResponse.topics`."""

    topic_name: str = ""
    partitions: list[ResponsePartitionData] = field(default_factory=list)


@struct
class NodeEndpoint(Struct):
    """One of `BeginQuorumEpochResponse.node_endpoints`."""

    node_id: Int32 = field(default=0, since=1)
    host: str = field(default="", since=1)
    port: Uint16 = field(default=0, since=1)


@message(versions=(0, 1), flexible=1, key=53)
class BeginQuorumEpochResponse(Response):
    """The response of BeginQuorumEpoch."""

    error_code: Int16 = 0
    topics: list[ResponseTopicData] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list, since=1, tag=0)
