"""Reads a snapshot of the metadata log (KIP-630). v1 adds directory ids (KIP-853)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Records, Uint16, Uuid


@struct
class SnapshotId(Struct):
    """The value of `PartitionSnapshot.snapshot_id`."""

    end_offset: Int64 = 0
    epoch: Int32 = 0


@struct
class PartitionSnapshot(Struct):
    """One of `TopicSnapshot.partitions`."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = 0
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    position: Int64 = 0
    replica_directory_id: Uuid = field(default=ZERO_UUID, since=1, tag=0, ignorable=True)


@struct
class TopicSnapshot(Struct):
    """One of `FetchSnapshotRequest.topics`."""

    name: str = ""
    partitions: list[PartitionSnapshot] = field(default_factory=list)


@message(versions=(0, 1))
class FetchSnapshotRequest(Request["FetchSnapshotResponse"]):
    """The request of FetchSnapshot."""

    cluster_id: str | None = field(default=None, nullable=0, tag=0)
    replica_id: Int32 = -1
    max_bytes: Int32 = 0x7FFFFFFF
    topics: list[TopicSnapshot] = field(default_factory=list)


@struct
class LeaderIdAndEpoch(Struct):
    """The value of `ResponsePartitionSnapshot.current_leader`."""

    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class ResponsePartitionSnapshot(Struct):
    """One of `ResponseTopicSnapshot.partitions`."""

    index: Int32 = 0
    error_code: Int16 = 0
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch, tag=0)
    size: Int64 = 0
    position: Int64 = 0
    unaligned_records: Records = b""


@struct
class ResponseTopicSnapshot(Struct):
    """One of `FetchSnapshotResponse.topics`."""

    name: str = ""
    partitions: list[ResponsePartitionSnapshot] = field(default_factory=list)


@struct
class NodeEndpoint(Struct):
    """One of `FetchSnapshotResponse.node_endpoints`."""

    node_id: Int32 = field(default=0, since=1)
    host: str = field(default="", since=1)
    port: Uint16 = field(default=0, since=1)


@message(versions=(0, 1))
class FetchSnapshotResponse(Response):
    """The response of FetchSnapshot."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[ResponseTopicSnapshot] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list, since=1, tag=0)
