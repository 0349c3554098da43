"""Starts, changes and cancels reassignments of replicas (KIP-455). v1 can refuse to change the
replication factor (KIP-860)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32


@struct
class ReassignablePartition(Struct):
    """One of `ReassignableTopic.partitions`."""

    partition_index: Int32 = 0
    replicas: list[Int32] | None = field(default=None, nullable=0)


@struct
class ReassignableTopic(Struct):
    """One of `AlterPartitionReassignmentsRequest.topics`."""

    name: str = ""
    partitions: list[ReassignablePartition] = field(default_factory=list)


@message(versions=(0, 1))
class AlterPartitionReassignmentsRequest(Request["AlterPartitionReassignmentsResponse"]):
    """The request of AlterPartitionReassignments."""

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: bool = field(default=True, since=1)
    topics: list[ReassignableTopic] = field(default_factory=list)


@struct
class ReassignablePartitionResponse(Struct):
    """One of `ReassignableTopicResponse.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)


@struct
class ReassignableTopicResponse(Struct):
    """One of `AlterPartitionReassignmentsResponse.responses`."""

    name: str = ""
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)


@message(versions=(0, 1))
class AlterPartitionReassignmentsResponse(Response):
    """The response of AlterPartitionReassignments."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: bool = field(default=True, since=1, ignorable=True)
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)
    responses: list[ReassignableTopicResponse] = field(default_factory=list)
