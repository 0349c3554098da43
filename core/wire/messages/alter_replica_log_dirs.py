"""Moves replicas between the log directories of a broker (KIP-113)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32


@struct
class AlterReplicaLogDirTopic(Struct):
    """One of `AlterReplicaLogDir.topics`."""

    name: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class AlterReplicaLogDir(Struct):
    """One of `AlterReplicaLogDirsRequest.dirs`."""

    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)


@message(versions=(1, 2))
class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"]):
    """The request of AlterReplicaLogDirs."""

    dirs: list[AlterReplicaLogDir] = field(default_factory=list)


@struct
class AlterReplicaLogDirPartitionResult(Struct):
    """One of `AlterReplicaLogDirTopicResult.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class AlterReplicaLogDirTopicResult(Struct):
    """One of `AlterReplicaLogDirsResponse.results`."""

    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)


@message(versions=(1, 2))
class AlterReplicaLogDirsResponse(Response):
    """The response of AlterReplicaLogDirs."""

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)
