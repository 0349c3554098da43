"""Joins, keeps alive and leaves a consumer group, and hands out its assignment (KIP-848). v1 adds
regular expressions."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Uuid


@struct
class TopicPartitions(Struct):
    """One of `ConsumerGroupHeartbeatRequest.topic_partitions`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


@message(versions=(0, 1))
class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"]):
    """The request of ConsumerGroupHeartbeat."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: str | None = field(default=None, nullable=0)
    rack_id: str | None = field(default=None, nullable=0)
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[str] | None = field(default=None, nullable=0)
    subscribed_topic_regex: str | None = field(default=None, since=1, nullable=1)
    server_assignor: str | None = field(default=None, nullable=0)
    topic_partitions: list[TopicPartitions] | None = field(default=None, nullable=0)


@struct
class Assignment(Struct):
    """The value of `ConsumerGroupHeartbeatResponse.assignment`."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@message(versions=(0, 1))
class ConsumerGroupHeartbeatResponse(Response):
    """The response of ConsumerGroupHeartbeat."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    member_id: str | None = field(default=None, nullable=0)
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = field(default=None, nullable=0)
