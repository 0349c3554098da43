"""Finds offsets by timestamp. v1 returns a single offset (KIP-79), v2 adds isolation levels
(KIP-98), v4 leader epochs (KIP-320), v7 the maximum timestamp (KIP-734), v8 and v9 tiered storage
(KIP-405, KIP-1005), v10 a time-out (KIP-1075).

v0 requests up to `max_num_offsets` segment starts before a timestamp. The response has them in
`old_style_offsets`.
"""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64


@struct
class ListOffsetsPartition(Struct):
    """One of `ListOffsetsTopic.partitions`."""

    partition_index: Int32 = 0
    current_leader_epoch: Int32 = field(default=-1, since=4, ignorable=True)
    timestamp: Int64 = 0
    max_num_offsets: Int32 = field(default=1, until=0, ignorable=True)


@struct
class ListOffsetsTopic(Struct):
    """One of `ListOffsetsRequest.topics`."""

    name: str = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)


@message(versions=(0, 11))
class ListOffsetsRequest(Request["ListOffsetsResponse"]):
    """The request of ListOffsets."""

    replica_id: Int32 = 0
    isolation_level: Int8 = field(default=0, since=2)
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: Int32 = field(default=0, since=10, ignorable=True)


@struct
class ListOffsetsPartitionResponse(Struct):
    """One of `ListOffsetsTopicResponse.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    old_style_offsets: list[Int64] = field(default_factory=list, until=0, ignorable=True)
    timestamp: Int64 = field(default=-1, since=1)
    offset: Int64 = field(default=-1, since=1)
    leader_epoch: Int32 = field(default=-1, since=4)


@struct
class ListOffsetsTopicResponse(Struct):
    """One of `ListOffsetsResponse.topics`."""

    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)


@message(versions=(0, 11))
class ListOffsetsResponse(Response):
    """The response of ListOffsets."""

    throttle_time_ms: Int32 = field(default=0, since=2, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)
