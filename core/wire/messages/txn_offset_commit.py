"""Commits offsets of a group as part of a transaction (KIP-98). v3 adds group membership (KIP-447).
Since v5, the coordinator adds the group to the transaction (KIP-890)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64


@struct
class TxnOffsetCommitRequestPartition(Struct):
    """One of `TxnOffsetCommitRequestTopic.partitions`."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field(default=-1, since=2, ignorable=True)
    committed_metadata: str | None = field(default="", nullable=0)


@struct
class TxnOffsetCommitRequestTopic(Struct):
    """One of `TxnOffsetCommitRequest.topics`."""

    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)


@message(versions=(0, 5))
class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"]):
    """The request of TxnOffsetCommit."""

    transactional_id: str = ""
    group_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Int32 = field(default=-1, since=3)
    member_id: str = field(default="", since=3)
    group_instance_id: str | None = field(default=None, since=3, nullable=3)
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)


@struct
class TxnOffsetCommitResponsePartition(Struct):
    """One of `TxnOffsetCommitResponseTopic.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic(Struct):
    """One of `TxnOffsetCommitResponse.topics`."""

    name: str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)


@message(versions=(0, 5))
class TxnOffsetCommitResponse(Response):
    """The response of TxnOffsetCommit."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)
