"""Lists the reassignments in progress (KIP-455)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32


@struct
class ListPartitionReassignmentsTopics(Struct):
    """One of `ListPartitionReassignmentsRequest.topics`."""

    name: str = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@message(versions=(0, 0))
class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"]):
    """The request of ListPartitionReassignments."""

    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = field(default=None, nullable=0)


@struct
class OngoingPartitionReassignment(Struct):
    """One of `OngoingTopicReassignment.partitions`."""

    partition_index: Int32 = 0
    replicas: list[Int32] = field(default_factory=list)
    adding_replicas: list[Int32] = field(default_factory=list)
    removing_replicas: list[Int32] = field(default_factory=list)


@struct
class OngoingTopicReassignment(Struct):
    """One of `ListPartitionReassignmentsResponse.topics`."""

    name: str = ""
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)


@message(versions=(0, 0))
class ListPartitionReassignmentsResponse(Response):
    """The response of ListPartitionReassignments."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
    topics: list[OngoingTopicReassignment] = field(default_factory=list)
