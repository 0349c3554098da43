"""Describes share groups (KIP-932)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Uuid


@message(versions=(1, 1))
class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"]):
    """The request of ShareGroupDescribe."""

    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@struct
class TopicPartitions(Struct):
    """One of `Assignment.topic_partitions`."""

    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class Assignment(Struct):
    """The value of `Member.assignment`."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@struct
class Member(Struct):
    """One of `DescribedGroup.members`."""

    member_id: str = ""
    rack_id: str | None = field(default=None, nullable=0)
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    assignment: Assignment = field(default_factory=Assignment)


@struct
class DescribedGroup(Struct):
    """One of `ShareGroupDescribeResponse.groups`."""

    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: list[Member] = field(default_factory=list)
    authorized_operations: Int32 = -2147483648


@message(versions=(1, 1))
class ShareGroupDescribeResponse(Response):
    """The response of ShareGroupDescribe."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)
