"""Adds partitions to topics (KIP-195). v3 adds quotas (KIP-599)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32


@struct
class CreatePartitionsAssignment(Struct):
    """One of `CreatePartitionsTopic.assignments`."""

    broker_ids: list[Int32] = field(default_factory=list)


@struct
class CreatePartitionsTopic(Struct):
    """One of `CreatePartitionsRequest.topics`."""

    name: str = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list, nullable=0)


@message(versions=(0, 3))
class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    """The request of CreatePartitions."""

    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: Int32 = 0
    validate_only: bool = False


@struct
class CreatePartitionsTopicResult(Struct):
    """One of `CreatePartitionsResponse.results`."""

    name: str = ""
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)


@message(versions=(0, 3))
class CreatePartitionsResponse(Response):
    """The response of CreatePartitions."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)
