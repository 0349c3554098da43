"""Acknowledges records that a member of a share group has acquired (KIP-932). v2 can renew locks
(KIP-1222)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64, Uuid


@struct
class AcknowledgementBatch(Struct):
    """One of `AcknowledgePartition.acknowledgement_batches`."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = field(default_factory=list)


@struct
class AcknowledgePartition(Struct):
    """One of `AcknowledgeTopic.partitions`."""

    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = field(default_factory=list)


@struct
class AcknowledgeTopic(Struct):
    """One of `ShareAcknowledgeRequest.topics`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[AcknowledgePartition] = field(default_factory=list)


@message(versions=(1, 2))
class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"]):
    """The request of ShareAcknowledge."""

    group_id: str | None = field(default=None, nullable=0)
    member_id: str | None = field(default="", nullable=0)
    share_session_epoch: Int32 = 0
    is_renew_ack: bool = field(default=False, since=2)
    topics: list[AcknowledgeTopic] = field(default_factory=list)


@struct
class LeaderIdAndEpoch(Struct):
    """The value of `PartitionData.current_leader`."""

    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class PartitionData(Struct):
    """One of `ShareAcknowledgeTopicResponse.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse(Struct):
    """One of `ShareAcknowledgeResponse.responses`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@struct
class NodeEndpoint(Struct):
    """One of `ShareAcknowledgeResponse.node_endpoints`."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = field(default=None, nullable=0)


@message(versions=(1, 2))
class ShareAcknowledgeResponse(Response):
    """The response of ShareAcknowledge."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    acquisition_lock_timeout_ms: Int32 = field(default=0, since=2, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)
