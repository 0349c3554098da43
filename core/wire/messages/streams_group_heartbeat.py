"""Joins, keeps alive and leaves a streams group, and hands out its tasks (KIP-1071)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64, Uint16


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
class CopartitionGroup(Struct):
    """One of `Subtopology.copartition_groups`."""

    source_topics: list[Int16] = field(default_factory=list)
    source_topic_regex: list[Int16] = field(default_factory=list)
    repartition_source_topics: list[Int16] = field(default_factory=list)


@struct
class Subtopology(Struct):
    """One of `Topology.subtopologies`."""

    subtopology_id: str = ""
    source_topics: list[str] = field(default_factory=list)
    source_topic_regex: list[str] = field(default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)
    repartition_sink_topics: list[str] = field(default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)
    copartition_groups: list[CopartitionGroup] = field(default_factory=list)


@struct
class Topology(Struct):
    """The value of `StreamsGroupHeartbeatRequest.topology`."""

    epoch: Int32 = 0
    subtopologies: list[Subtopology] = field(default_factory=list)


@struct
class TaskIds(Struct):
    """One of `StreamsGroupHeartbeatRequest.active_tasks`."""

    subtopology_id: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class Endpoint(Struct):
    """The value of `StreamsGroupHeartbeatRequest.user_endpoint`."""

    host: str = ""
    port: Uint16 = 0


@struct
class TaskOffset(Struct):
    """One of `StreamsGroupHeartbeatRequest.task_offsets`."""

    subtopology_id: str = ""
    partition: Int32 = 0
    offset: Int64 = 0


@message(versions=(0, 0))
class StreamsGroupHeartbeatRequest(Request["StreamsGroupHeartbeatResponse"]):
    """The request of StreamsGroupHeartbeat."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: str | None = field(default=None, nullable=0)
    rack_id: str | None = field(default=None, nullable=0)
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = field(default=None, nullable=0)
    active_tasks: list[TaskIds] | None = field(default=None, nullable=0)
    standby_tasks: list[TaskIds] | None = field(default=None, nullable=0)
    warmup_tasks: list[TaskIds] | None = field(default=None, nullable=0)
    process_id: str | None = field(default=None, nullable=0)
    user_endpoint: Endpoint | None = field(default=None, nullable=0)
    client_tags: list[KeyValue] | None = field(default=None, nullable=0)
    task_offsets: list[TaskOffset] | None = field(default=None, nullable=0)
    task_end_offsets: list[TaskOffset] | None = field(default=None, nullable=0)
    shutdown_application: bool = False


@struct
class Status(Struct):
    """One of `StreamsGroupHeartbeatResponse.status`."""

    status_code: Int8 = 0
    status_detail: str = ""


@struct
class TopicPartition(Struct):
    """One of `EndpointToPartitions.active_partitions`."""

    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class EndpointToPartitions(Struct):
    """One of `StreamsGroupHeartbeatResponse.partitions_by_user_endpoint`."""

    user_endpoint: Endpoint = field(default_factory=Endpoint)
    active_partitions: list[TopicPartition] = field(default_factory=list)
    standby_partitions: list[TopicPartition] = field(default_factory=list)


@message(versions=(0, 0))
class StreamsGroupHeartbeatResponse(Response):
    """The response of StreamsGroupHeartbeat."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    member_id: str = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: list[Status] | None = field(default_factory=list, nullable=0)
    active_tasks: list[TaskIds] | None = field(default=None, nullable=0)
    standby_tasks: list[TaskIds] | None = field(default=None, nullable=0)
    warmup_tasks: list[TaskIds] | None = field(default=None, nullable=0)
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(default=None, nullable=0)
