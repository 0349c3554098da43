"""Describes log directories and the sizes of their replicas (KIP-113). v4 adds disk sizes
(KIP-827), v5 cordoned directories (KIP-1066)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64


@struct
class DescribableLogDirTopic(Struct):
    """One of `DescribeLogDirsRequest.topics`."""

    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)


@message(versions=(1, 5))
class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"]):
    """The request of DescribeLogDirs."""

    topics: list[DescribableLogDirTopic] | None = field(default_factory=list, nullable=0)


@struct
class DescribeLogDirsPartition(Struct):
    """One of `DescribeLogDirsTopic.partitions`."""

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False


@struct
class DescribeLogDirsTopic(Struct):
    """One of `DescribeLogDirsResult.topics`."""

    name: str = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


@struct
class DescribeLogDirsResult(Struct):
    """One of `DescribeLogDirsResponse.results`."""

    error_code: Int16 = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: Int64 = field(default=-1, since=4, ignorable=True)
    usable_bytes: Int64 = field(default=-1, since=4, ignorable=True)
    is_cordoned: bool = field(default=False, since=5, ignorable=True)


@message(versions=(1, 5))
class DescribeLogDirsResponse(Response):
    """The response of DescribeLogDirs."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(default=0, since=3, ignorable=True)
    results: list[DescribeLogDirsResult] = field(default_factory=list)
