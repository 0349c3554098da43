"""Deletes topics. v5 adds error messages (KIP-599), v6 topic ids (KIP-516)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Uuid


@struct
class DeleteTopicState(Struct):
    """One of `DeleteTopicsRequest.topics`."""

    name: str | None = field(default=None, since=6, nullable=6)
    topic_id: Uuid = field(default=ZERO_UUID, since=6)


@message(versions=(0, 6))
class DeleteTopicsRequest(Request["DeleteTopicsResponse"]):
    """The request of DeleteTopics."""

    topics: list[DeleteTopicState] = field(default_factory=list, since=6)
    topic_names: list[str] = field(default_factory=list, until=5, ignorable=True)
    timeout_ms: Int32 = 0


@struct
class DeletableTopicResult(Struct):
    """One of `DeleteTopicsResponse.responses`."""

    name: str | None = field(default="", nullable=6)
    topic_id: Uuid = field(default=ZERO_UUID, since=6, ignorable=True)
    error_code: Int16 = 0
    error_message: str | None = field(default=None, since=5, nullable=5, ignorable=True)


@message(versions=(0, 6))
class DeleteTopicsResponse(Response):
    """The response of DeleteTopics."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    responses: list[DeletableTopicResult] = field(default_factory=list)
