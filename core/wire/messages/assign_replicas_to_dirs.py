"""Tells the controller in which log directories replicas are (KIP-858)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Uuid


@struct
class PartitionData(Struct):
    """One of `TopicData.partitions`."""

    partition_index: Int32 = 0


@struct
class TopicData(Struct):
    """One of `DirectoryData.topics`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@struct
class DirectoryData(Struct):
    """One of `AssignReplicasToDirsRequest.directories`."""

    id: Uuid = ZERO_UUID
    topics: list[TopicData] = field(default_factory=list)


@message(versions=(0, 0))
class AssignReplicasToDirsRequest(Request["AssignReplicasToDirsResponse"]):
    """The request of AssignReplicasToDirs."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    directories: list[DirectoryData] = field(default_factory=list)


@struct
class ResponsePartitionData(Struct):
    """One of `ResponseTopicData.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class ResponseTopicData(Struct):
    """One of `ResponseDirectoryData.topics`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[ResponsePartitionData] = field(default_factory=list)


@struct
class ResponseDirectoryData(Struct):
    """One of `AssignReplicasToDirsResponse.directories`."""

    id: Uuid = ZERO_UUID
    topics: list[ResponseTopicData] = field(default_factory=list)


@message(versions=(0, 0))
class AssignReplicasToDirsResponse(Response):
    """The response of AssignReplicasToDirs."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    directories: list[ResponseDirectoryData] = field(default_factory=list)
