"""Joins, keeps alive and leaves a share group (KIP-932)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Uuid


@message(versions=(1, 1))
class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"]):
    """The request of ShareGroupHeartbeat."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    rack_id: str | None = field(default=None, nullable=0)
    subscribed_topic_names: list[str] | None = field(default=None, nullable=0)


@struct
class TopicPartitions(Struct):
    """One of `Assignment.topic_partitions`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


@struct
class Assignment(Struct):
    """The value of `ShareGroupHeartbeatResponse.assignment`."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@message(versions=(1, 1))
class ShareGroupHeartbeatResponse(Response):
    """The response of ShareGroupHeartbeat."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    member_id: str | None = field(default=None, nullable=0)
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = field(default=None, nullable=0)
