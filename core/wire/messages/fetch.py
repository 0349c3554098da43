"""Reads record batches, for consumers and followers. v4 adds transactions (KIP-98), v7 incremental
sessions (KIP-227), v9 leader epochs (KIP-320), v11 racks (KIP-392), v12 diverging epochs (KIP-595),
v13 topic ids (KIP-516), v15 replica state (KIP-903), v16 the current leader (KIP-951), v17
directory ids (KIP-853)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64, Records, Uuid


@struct
class ReplicaState(Struct):
    """The value of `FetchRequest.replica_state`."""

    replica_id: Int32 = field(default=-1, since=15)
    replica_epoch: Int64 = field(default=-1, since=15)


@struct
class FetchPartition(Struct):
    """One of `FetchTopic.partitions`."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = field(default=-1, since=9, ignorable=True)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = field(default=-1, since=12)
    log_start_offset: Int64 = field(default=-1, since=5, ignorable=True)
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = field(default=ZERO_UUID, since=17, tag=0, ignorable=True)
    high_watermark: Int64 = field(default=9223372036854775807, since=18, tag=1, ignorable=True)


@struct
class FetchTopic(Struct):
    """One of `FetchRequest.topics`."""

    topic: str = field(default="", until=12, ignorable=True)
    topic_id: Uuid = field(default=ZERO_UUID, since=13, ignorable=True)
    partitions: list[FetchPartition] = field(default_factory=list)


@struct
class ForgottenTopic(Struct):
    """One of `FetchRequest.forgotten_topics_data`."""

    topic: str = field(default="", since=7, until=12, ignorable=True)
    topic_id: Uuid = field(default=ZERO_UUID, since=13, ignorable=True)
    partitions: list[Int32] = field(default_factory=list, since=7)


@message(versions=(0, 18))
class FetchRequest(Request["FetchResponse"]):
    """The request of Fetch."""

    cluster_id: str | None = field(default=None, since=12, nullable=12, tag=0, ignorable=True)
    replica_id: Int32 = field(default=-1, until=14)
    replica_state: ReplicaState = field(default_factory=ReplicaState, since=15, tag=1)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = field(default=0x7FFFFFFF, since=3, ignorable=True)
    isolation_level: Int8 = field(default=0, since=4, ignorable=True)
    session_id: Int32 = field(default=0, since=7, ignorable=True)
    session_epoch: Int32 = field(default=-1, since=7, ignorable=True)
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list, since=7)
    rack_id: str = field(default="", since=11, ignorable=True)


@struct
class EpochEndOffset(Struct):
    """The value of `PartitionData.diverging_epoch`."""

    epoch: Int32 = field(default=-1, since=12)
    end_offset: Int64 = field(default=-1, since=12)


@struct
class LeaderIdAndEpoch(Struct):
    """The value of `PartitionData.current_leader`."""

    leader_id: Int32 = field(default=-1, since=12)
    leader_epoch: Int32 = field(default=-1, since=12)


@struct
class SnapshotId(Struct):
    """The value of `PartitionData.snapshot_id`."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction(Struct):
    """One of `PartitionData.aborted_transactions`."""

    producer_id: Int64 = field(default=0, since=4)
    first_offset: Int64 = field(default=0, since=4)


@struct
class PartitionData(Struct):
    """One of `FetchableTopicResponse.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = field(default=-1, since=4, ignorable=True)
    log_start_offset: Int64 = field(default=-1, since=5, ignorable=True)
    diverging_epoch: EpochEndOffset = field(default_factory=EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = field(default_factory=SnapshotId, since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(
        default_factory=list, since=4, nullable=4, ignorable=True
    )
    preferred_read_replica: Int32 = field(default=-1, since=11)
    records: Records = field(default=None, nullable=0)


@struct
class FetchableTopicResponse(Struct):
    """One of `FetchResponse.responses`."""

    topic: str = field(default="", until=12, ignorable=True)
    topic_id: Uuid = field(default=ZERO_UUID, since=13, ignorable=True)
    partitions: list[PartitionData] = field(default_factory=list)


@struct
class NodeEndpoint(Struct):
    """One of `FetchResponse.node_endpoints`."""

    node_id: Int32 = field(default=0, since=16)
    host: str = field(default="", since=16)
    port: Int32 = field(default=0, since=16)
    rack: str | None = field(default=None, since=16, nullable=16)


@message(versions=(0, 18))
class FetchResponse(Response):
    """The response of Fetch."""

    throttle_time_ms: Int32 = field(default=0, since=1, ignorable=True)
    error_code: Int16 = field(default=0, since=7, ignorable=True)
    session_id: Int32 = field(default=0, since=7)
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list, since=16, tag=0)
