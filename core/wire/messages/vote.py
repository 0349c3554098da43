"""Asks for a vote in an election of the metadata quorum (KIP-595). v1 directory ids (KIP-853),
v2 pre-votes (KIP-996).

Api key 52; Apache Kafka 4.3.1 serves versions 0 to 2.
"""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Uint16, Uuid


@struct
class PartitionData(Struct):
    """One of `TopicData.partitions`."""

    partition_index: Int32 = 0
    replica_epoch: Int32 = 0
    replica_id: Int32 = 0
    replica_directory_id: Uuid = field(default=ZERO_UUID, since=1, ignorable=True)
    voter_directory_id: Uuid = field(default=ZERO_UUID, since=1, ignorable=True)
    last_offset_epoch: Int32 = 0
    last_offset: Int64 = 0
    pre_vote: bool = field(default=False, since=2)


@struct
class TopicData(Struct):
    """One of `VoteRequest.topics`."""

    topic_name: str = ""
    partitions: list[PartitionData] = field(default_factory=list)


@message(versions=(0, 2), flexible=0, key=52)
class VoteRequest(Request["VoteResponse"]):
    """The request of Vote."""

    cluster_id: str | None = field(default=None, nullable=0)
    voter_id: Int32 = field(default=-1, since=1, ignorable=True)
    topics: list[TopicData] = field(default_factory=list)


@struct
class ResponsePartitionData(Struct):
    """One of `ResponseTopicData.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    vote_granted: bool = False


@struct
class ResponseTopicData(Struct):
    """One of `VoteResponse.topics`."""

    topic_name: str = ""
    partitions: list[ResponsePartitionData] = field(default_factory=list)


@struct
class NodeEndpoint(Struct):
    """One of `VoteResponse.node_endpoints`."""

    node_id: Int32 = field(default=0, since=1)
    host: str = field(default="", since=1)
    port: Uint16 = field(default=0, since=1)


@message(versions=(0, 2), flexible=0, key=52)
class VoteResponse(Response):
    """The response of Vote."""

    error_code: Int16 = 0
    topics: list[ResponseTopicData] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list, since=1, tag=0)
