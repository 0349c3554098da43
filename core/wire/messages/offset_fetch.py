"""Reads the committed offsets of groups. v2 can read all topics (KIP-88), v5 adds leader epochs
(KIP-320), v7 waits for open transactions (KIP-447), v8 adds several groups (KIP-709), v9 member
epochs (KIP-848), v10 topic ids."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Uuid


@struct
class OffsetFetchRequestTopic(Struct):
    """One of `OffsetFetchRequest.topics`."""

    name: str = field(default="", until=7)
    partition_indexes: list[Int32] = field(default_factory=list, until=7)


@struct
class OffsetFetchRequestTopics(Struct):
    """One of `OffsetFetchRequestGroup.topics`."""

    name: str = field(default="", since=8, until=9, ignorable=True)
    topic_id: Uuid = field(default=ZERO_UUID, since=10, ignorable=True)
    partition_indexes: list[Int32] = field(default_factory=list, since=8)


@struct
class OffsetFetchRequestGroup(Struct):
    """One of `OffsetFetchRequest.groups`."""

    group_id: str = field(default="", since=8)
    member_id: str | None = field(default=None, since=9, nullable=9, ignorable=True)
    member_epoch: Int32 = field(default=-1, since=9, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list, since=8, nullable=8)


@message(versions=(0, 10))
class OffsetFetchRequest(Request["OffsetFetchResponse"]):
    """The request of OffsetFetch."""

    group_id: str = field(default="", until=7)
    topics: list[OffsetFetchRequestTopic] | None = field(
        default_factory=list, until=7, nullable=(2, 7)
    )
    groups: list[OffsetFetchRequestGroup] = field(default_factory=list, since=8)
    require_stable: bool = field(default=False, since=7)


@struct
class OffsetFetchResponsePartition(Struct):
    """One of `OffsetFetchResponseTopic.partitions`."""

    partition_index: Int32 = field(default=0, until=7)
    committed_offset: Int64 = field(default=0, until=7)
    committed_leader_epoch: Int32 = field(default=-1, since=5, until=7, ignorable=True)
    metadata: str | None = field(default="", until=7, nullable=(0, 7))
    error_code: Int16 = field(default=0, until=7)


@struct
class OffsetFetchResponseTopic(Struct):
    """One of `OffsetFetchResponse.topics`."""

    name: str = field(default="", until=7)
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list, until=7)


@struct
class OffsetFetchResponsePartitions(Struct):
    """One of `OffsetFetchResponseTopics.partitions`."""

    partition_index: Int32 = field(default=0, since=8)
    committed_offset: Int64 = field(default=0, since=8)
    committed_leader_epoch: Int32 = field(default=-1, since=8, ignorable=True)
    metadata: str | None = field(default="", since=8, nullable=8)
    error_code: Int16 = field(default=0, since=8)


@struct
class OffsetFetchResponseTopics(Struct):
    """One of `OffsetFetchResponseGroup.topics`."""

    name: str = field(default="", since=8, until=9, ignorable=True)
    topic_id: Uuid = field(default=ZERO_UUID, since=10, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list, since=8)


@struct
class OffsetFetchResponseGroup(Struct):
    """One of `OffsetFetchResponse.groups`."""

    group_id: str = field(default="", since=8)
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list, since=8)
    error_code: Int16 = field(default=0, since=8)


@message(versions=(0, 10))
class OffsetFetchResponse(Response):
    """The response of OffsetFetch."""

    throttle_time_ms: Int32 = field(default=0, since=3, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(default_factory=list, until=7)
    error_code: Int16 = field(default=0, since=2, until=7, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(default_factory=list, since=8)
