"""Deletes the start offsets of share groups (KIP-932)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Uuid


@struct
class DeleteShareGroupOffsetsRequestTopic(Struct):
    """One of `DeleteShareGroupOffsetsRequest.topics`."""

    topic_name: str = ""


@message(versions=(0, 0))
class DeleteShareGroupOffsetsRequest(Request["DeleteShareGroupOffsetsResponse"]):
    """The request of DeleteShareGroupOffsets."""

    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(default_factory=list)


@struct
class DeleteShareGroupOffsetsResponseTopic(Struct):
    """One of `DeleteShareGroupOffsetsResponse.responses`."""

    topic_name: str = ""
    topic_id: Uuid = ZERO_UUID
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)


@message(versions=(0, 0))
class DeleteShareGroupOffsetsResponse(Response):
    """The response of DeleteShareGroupOffsets."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(default_factory=list)
