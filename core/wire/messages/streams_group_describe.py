"""Describes streams groups and their topologies (KIP-1071)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Uint16


@message(versions=(0, 0))
class StreamsGroupDescribeRequest(Request["StreamsGroupDescribeResponse"]):
    """The request of StreamsGroupDescribe."""

    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@struct
class KeyValue(Struct):
    """One of `TopicInfo.topic_configs`."""

    key: str = ""
    value: str = ""


@struct
class TopicInfo(Struct):
    """One of `Subtopology.state_changelog_topics`."""

    name: str = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[KeyValue] = field(default_factory=list)


@struct
class Subtopology(Struct):
    """One of `Topology.subtopologies`."""

    subtopology_id: str = ""
    source_topics: list[str] = field(default_factory=list)
    repartition_sink_topics: list[str] = field(default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)


@struct
class Topology(Struct):
    """The value of `DescribedGroup.topology`."""

    epoch: Int32 = 0
    subtopologies: list[Subtopology] | None = field(default=None, nullable=0)


@struct
class Endpoint(Struct):
    """The value of `Member.user_endpoint`."""

    host: str = ""
    port: Uint16 = 0


@struct
class TaskOffset(Struct):
    """One of `Member.task_offsets`."""

    subtopology_id: str = ""
    partition: Int32 = 0
    offset: Int64 = 0


@struct
class TaskIds(Struct):
    """One of `Assignment.active_tasks`."""

    subtopology_id: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class Assignment(Struct):
    """The value of `Member.assignment`."""

    active_tasks: list[TaskIds] = field(default_factory=list)
    standby_tasks: list[TaskIds] = field(default_factory=list)
    warmup_tasks: list[TaskIds] = field(default_factory=list)


@struct
class Member(Struct):
    """One of `DescribedGroup.members`."""

    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: str | None = field(default=None, nullable=0)
    rack_id: str | None = field(default=None, nullable=0)
    client_id: str = ""
    client_host: str = ""
    topology_epoch: Int32 = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = field(default=None, nullable=0)
    client_tags: list[KeyValue] = field(default_factory=list)
    task_offsets: list[TaskOffset] = field(default_factory=list)
    task_end_offsets: list[TaskOffset] = field(default_factory=list)
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    is_classic: bool = False


@struct
class DescribedGroup(Struct):
    """One of `StreamsGroupDescribeResponse.groups`."""

    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: Topology | None = field(default=None, nullable=0)
    members: list[Member] = field(default_factory=list)
    authorized_operations: Int32 = -2147483648


@message(versions=(0, 0))
class StreamsGroupDescribeResponse(Response):
    """The response of StreamsGroupDescribe."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)
