"""Moves the start of share groups without members (KIP-932)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Uuid


@struct
class AlterShareGroupOffsetsRequestPartition(Struct):
    """One of `AlterShareGroupOffsetsRequestTopic.partitions`."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0


@struct
class AlterShareGroupOffsetsRequestTopic(Struct):
    """One of `AlterShareGroupOffsetsRequest.topics`."""

    topic_name: str = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(default_factory=list)


@message(versions=(0, 0))
class AlterShareGroupOffsetsRequest(Request["AlterShareGroupOffsetsResponse"]):
    """The request of AlterShareGroupOffsets."""

    group_id: str = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(default_factory=list)


@struct
class AlterShareGroupOffsetsResponsePartition(Struct):
    """One of `AlterShareGroupOffsetsResponseTopic.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)


@struct
class AlterShareGroupOffsetsResponseTopic(Struct):
    """One of `AlterShareGroupOffsetsResponse.responses`."""

    topic_name: str = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(default_factory=list)


@message(versions=(0, 0))
class AlterShareGroupOffsetsResponse(Response):
    """The response of AlterShareGroupOffsets."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(default_factory=list)
