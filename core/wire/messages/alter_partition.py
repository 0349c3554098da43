"""Sent by the leaders of partitions to the controller, to change their ISRs (KIP-497). v2 adds
topic ids (KIP-516), v3 broker epochs (KIP-903)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64, Uuid


@struct
class BrokerState(Struct):
    """One of `PartitionData.new_isr_with_epochs`."""

    broker_id: Int32 = field(default=0, since=3)
    broker_epoch: Int64 = field(default=-1, since=3)


@struct
class PartitionData(Struct):
    """One of `TopicData.partitions`."""

    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: list[Int32] = field(default_factory=list, until=2)
    new_isr_with_epochs: list[BrokerState] = field(default_factory=list, since=3)
    leader_recovery_state: Int8 = field(default=0, since=1)
    partition_epoch: Int32 = 0


@struct
class TopicData(Struct):
    """One of `AlterPartitionRequest.topics`."""

    topic_id: Uuid = field(default=ZERO_UUID, since=2, ignorable=True)
    partitions: list[PartitionData] = field(default_factory=list)


@message(versions=(2, 3))
class AlterPartitionRequest(Request["AlterPartitionResponse"]):
    """The request of AlterPartition."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: list[TopicData] = field(default_factory=list)


@struct
class ResponsePartitionData(Struct):
    """One of `ResponseTopicData.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = field(default_factory=list)
    leader_recovery_state: Int8 = field(default=0, since=1, ignorable=True)
    partition_epoch: Int32 = 0


@struct
class ResponseTopicData(Struct):
    """One of `AlterPartitionResponse.topics`."""

    topic_id: Uuid = field(default=ZERO_UUID, since=2, ignorable=True)
    partitions: list[ResponsePartitionData] = field(default_factory=list)


@message(versions=(2, 3))
class AlterPartitionResponse(Response):
    """The response of AlterPartition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[ResponseTopicData] = field(default_factory=list)
