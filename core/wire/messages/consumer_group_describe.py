"""Describes consumer groups (KIP-848). v1 adds member types (KIP-1099)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Uuid


@message(versions=(0, 1))
class ConsumerGroupDescribeRequest(Request["ConsumerGroupDescribeResponse"]):
    """The request of ConsumerGroupDescribe."""

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
    instance_id: str | None = field(default=None, nullable=0)
    rack_id: str | None = field(default=None, nullable=0)
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = field(default=None, nullable=0)
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    member_type: Int8 = field(default=-1, since=1, ignorable=True)


@struct
class DescribedGroup(Struct):
    """One of `ConsumerGroupDescribeResponse.groups`."""

    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: list[Member] = field(default_factory=list)
    authorized_operations: Int32 = -2147483648


@message(versions=(0, 1))
class ConsumerGroupDescribeResponse(Response):
    """The response of ConsumerGroupDescribe."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)
