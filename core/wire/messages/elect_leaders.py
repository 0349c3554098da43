"""Elects preferred leaders, or unclean ones (KIP-183, KIP-460)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32


@struct
class TopicPartitions(Struct):
    """One of `ElectLeadersRequest.topic_partitions`."""

    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)


@message(versions=(0, 2))
class ElectLeadersRequest(Request["ElectLeadersResponse"]):
    """The request of ElectLeaders."""

    election_type: Int8 = field(default=0, since=1)
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list, nullable=0)
    timeout_ms: Int32 = 60000


@struct
class PartitionResult(Struct):
    """One of `ReplicaElectionResult.partition_result`."""

    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default="", nullable=0)


@struct
class ReplicaElectionResult(Struct):
    """One of `ElectLeadersResponse.replica_election_results`."""

    topic: str = ""
    partition_result: list[PartitionResult] = field(default_factory=list)


@message(versions=(0, 2))
class ElectLeadersResponse(Response):
    """The response of ElectLeaders."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(default=0, since=1)
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)
