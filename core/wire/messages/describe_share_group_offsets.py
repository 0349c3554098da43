"""Describes the start offsets of share groups (KIP-932). v1 adds their lag (KIP-1226)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Uuid


@struct
class DescribeShareGroupOffsetsRequestTopic(Struct):
    """One of `DescribeShareGroupOffsetsRequestGroup.topics`."""

    topic_name: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class DescribeShareGroupOffsetsRequestGroup(Struct):
    """One of `DescribeShareGroupOffsetsRequest.groups`."""

    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(
        default_factory=list, nullable=0
    )


@message(versions=(0, 1))
class DescribeShareGroupOffsetsRequest(Request["DescribeShareGroupOffsetsResponse"]):
    """The request of DescribeShareGroupOffsets."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(default_factory=list)


@struct
class DescribeShareGroupOffsetsResponsePartition(Struct):
    """One of `DescribeShareGroupOffsetsResponseTopic.partitions`."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Int64 = field(default=-1, since=1, ignorable=True)
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)


@struct
class DescribeShareGroupOffsetsResponseTopic(Struct):
    """One of `DescribeShareGroupOffsetsResponseGroup.topics`."""

    topic_name: str = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(default_factory=list)


@struct
class DescribeShareGroupOffsetsResponseGroup(Struct):
    """One of `DescribeShareGroupOffsetsResponse.groups`."""

    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(default_factory=list)
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)


@message(versions=(0, 1))
class DescribeShareGroupOffsetsResponse(Response):
    """The response of DescribeShareGroupOffsets."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(default_factory=list)
