"""Acquires records for a member of a share group, and acknowledges earlier ones (KIP-932). v2 can
renew locks, and adds acquire modes (KIP-1206, KIP-1222)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64, Records, Uuid


@struct
class AcknowledgementBatch(Struct):
    """One of `FetchPartition.acknowledgement_batches`."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = field(default_factory=list)


@struct
class FetchPartition(Struct):
    """One of `FetchTopic.partitions`."""

    partition_index: Int32 = 0
    partition_max_bytes: Int32 = field(default=0, until=0)
    acknowledgement_batches: list[AcknowledgementBatch] = field(default_factory=list)


@struct
class FetchTopic(Struct):
    """One of `ShareFetchRequest.topics`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)


@struct
class ForgottenTopic(Struct):
    """One of `ShareFetchRequest.forgotten_topics_data`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


@message(versions=(1, 2))
class ShareFetchRequest(Request["ShareFetchResponse"]):
    """The request of ShareFetch."""

    group_id: str | None = field(default=None, nullable=0)
    member_id: str | None = field(default="", nullable=0)
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32 = field(default=0, since=1)
    batch_size: Int32 = field(default=0, since=1)
    share_acquire_mode: Int8 = field(default=0, since=2, ignorable=True)
    is_renew_ack: bool = field(default=False, since=2)
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)


@struct
class LeaderIdAndEpoch(Struct):
    """The value of `PartitionData.current_leader`."""

    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class AcquiredRecords(Struct):
    """One of `PartitionData.acquired_records`."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


@struct
class PartitionData(Struct):
    """One of `ShareFetchableTopicResponse.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: str | None = field(default=None, nullable=0)
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)
    records: Records = field(default=None, nullable=(0, 0))
    acquired_records: list[AcquiredRecords] = field(default_factory=list)


@struct
class ShareFetchableTopicResponse(Struct):
    """One of `ShareFetchResponse.responses`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@struct
class NodeEndpoint(Struct):
    """One of `ShareFetchResponse.node_endpoints`."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = field(default=None, nullable=0)


@message(versions=(1, 2))
class ShareFetchResponse(Response):
    """The response of ShareFetch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    acquisition_lock_timeout_ms: Int32 = field(default=0, since=1)
    responses: list[ShareFetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)
