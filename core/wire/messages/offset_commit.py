"""Commits offsets of a group. v1 adds the generation and member, v2 retention, v6 leader epochs
(KIP-320), v7 static members (KIP-345), v9 member epochs (KIP-848), v10 topic ids.

Only v1 has a commit timestamp for each partition.
"""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Uuid


@struct
class OffsetCommitRequestPartition(Struct):
    """One of `OffsetCommitRequestTopic.partitions`."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field(default=-1, since=6, ignorable=True)
    commit_timestamp: Int64 = field(default=-1, since=1, until=1, ignorable=True)
    committed_metadata: str | None = field(default="", nullable=0)


@struct
class OffsetCommitRequestTopic(Struct):
    """One of `OffsetCommitRequest.topics`."""

    name: str = field(default="", until=9, ignorable=True)
    topic_id: Uuid = field(default=ZERO_UUID, since=10, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


@message(versions=(0, 10))
class OffsetCommitRequest(Request["OffsetCommitResponse"]):
    """The request of OffsetCommit."""

    group_id: str = ""
    generation_id_or_member_epoch: Int32 = field(default=-1, since=1, ignorable=True)
    member_id: str = field(default="", since=1, ignorable=True)
    group_instance_id: str | None = field(default=None, since=7, nullable=7)
    retention_time_ms: Int64 = field(default=-1, since=2, until=4, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


@struct
class OffsetCommitResponsePartition(Struct):
    """One of `OffsetCommitResponseTopic.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic(Struct):
    """One of `OffsetCommitResponse.topics`."""

    name: str = field(default="", until=9, ignorable=True)
    topic_id: Uuid = field(default=ZERO_UUID, since=10, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


@message(versions=(0, 10))
class OffsetCommitResponse(Response):
    """The response of OffsetCommit."""

    throttle_time_ms: Int32 = field(default=0, since=3, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)
