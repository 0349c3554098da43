"""Finds the end offsets of leader epochs, with which replicas and consumers detect that they
diverge (KIP-101, KIP-279, KIP-320)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64


@struct
class OffsetForLeaderPartition(Struct):
    """One of `OffsetForLeaderTopic.partitions`."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = field(default=-1, since=2, ignorable=True)
    leader_epoch: Int32 = 0


@struct
class OffsetForLeaderTopic(Struct):
    """One of `OffsetForLeaderEpochRequest.topics`."""

    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)


@message(versions=(2, 4))
class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"]):
    """The request of OffsetForLeaderEpoch."""

    replica_id: Int32 = field(default=-2, since=3, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)


@struct
class EpochEndOffset(Struct):
    """One of `OffsetForLeaderTopicResult.partitions`."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = field(default=-1, since=1, ignorable=True)
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult(Struct):
    """One of `OffsetForLeaderEpochResponse.topics`."""

    topic: str = ""
    partitions: list[EpochEndOffset] = field(default_factory=list)


@message(versions=(2, 4))
class OffsetForLeaderEpochResponse(Response):
    """The response of OffsetForLeaderEpoch."""

    throttle_time_ms: Int32 = field(default=0, since=2, ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)
