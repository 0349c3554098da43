"""The records of `__consumer_offsets` for streams groups (KIP-1071)."""

from pk.core.wire.schema import Message, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64, Uint16


@message(versions=(0, 0), record_type=22)
class StreamsGroupCurrentMemberAssignmentKey(Message):
    """The key of a streams group current member assignment record."""

    group_id: str = field(default="", until=0)
    member_id: str = field(default="", until=0)


@struct
class TaskIds(Struct):
    """One of `StreamsGroupCurrentMemberAssignmentValue.active_tasks`."""

    subtopology_id: str = ""
    partitions: list[Int32] = field(default_factory=list)
    assignment_epochs: list[Int32] | None = field(default_factory=list, nullable=0, tag=0)


@message(versions=(0, 0), flexible=0, record_type=22)
class StreamsGroupCurrentMemberAssignmentValue(Message):
    """The value of a streams group current member assignment record."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    active_tasks: list[TaskIds] = field(default_factory=list)
    standby_tasks: list[TaskIds] = field(default_factory=list)
    warmup_tasks: list[TaskIds] = field(default_factory=list)
    active_tasks_pending_revocation: list[TaskIds] = field(default_factory=list)
    standby_tasks_pending_revocation: list[TaskIds] = field(default_factory=list)
    warmup_tasks_pending_revocation: list[TaskIds] = field(default_factory=list)


@message(versions=(0, 0), record_type=19)
class StreamsGroupMemberMetadataKey(Message):
    """The key of a streams group member metadata record."""

    group_id: str = field(default="", until=0)
    member_id: str = field(default="", until=0)


@struct
class Endpoint(Struct):
    """The value of `StreamsGroupMemberMetadataValue.user_endpoint`."""

    host: str = ""
    port: Uint16 = 0


@struct
class KeyValue(Struct):
    """One of `StreamsGroupMemberMetadataValue.client_tags`."""

    key: str = ""
    value: str = ""


@message(versions=(0, 0), flexible=0, record_type=19)
class StreamsGroupMemberMetadataValue(Message):
    """The value of a streams group member metadata record."""

    instance_id: str | None = field(default="", nullable=0)
    rack_id: str | None = field(default="", nullable=0)
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32 = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = field(default=None, nullable=0)
    client_tags: list[KeyValue] = field(default_factory=list)


@message(versions=(0, 0), record_type=17)
class StreamsGroupMetadataKey(Message):
    """The key of a streams group metadata record."""

    group_id: str = field(default="", until=0)


@struct
class LastAssignmentConfig(Struct):
    """One of `StreamsGroupMetadataValue.last_assignment_configs`."""

    key: str = ""
    value: str = ""


@message(versions=(0, 0), flexible=0, record_type=17)
class StreamsGroupMetadataValue(Message):
    """The value of a streams group metadata record."""

    epoch: Int32 = 0
    metadata_hash: Int64 = 0
    validated_topology_epoch: Int32 = field(default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = field(
        default_factory=list, nullable=0, tag=1
    )


@message(versions=(0, 0), record_type=21)
class StreamsGroupTargetAssignmentMemberKey(Message):
    """The key of a streams group target assignment member record."""

    group_id: str = field(default="", until=0)
    member_id: str = field(default="", until=0)


@struct
class StreamsGroupTargetAssignmentMemberTaskIds(Struct):
    """One of `StreamsGroupTargetAssignmentMemberValue.active_tasks`."""

    subtopology_id: str = ""
    partitions: list[Int32] = field(default_factory=list)


@message(versions=(0, 0), flexible=0, record_type=21)
class StreamsGroupTargetAssignmentMemberValue(Message):
    """The value of a streams group target assignment member record."""

    active_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = field(default_factory=list)
    standby_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = field(default_factory=list)
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberTaskIds] = field(default_factory=list)


@message(versions=(0, 0), record_type=20)
class StreamsGroupTargetAssignmentMetadataKey(Message):
    """The key of a streams group target assignment metadata record."""

    group_id: str = field(default="", until=0)


@message(versions=(0, 0), flexible=0, record_type=20)
class StreamsGroupTargetAssignmentMetadataValue(Message):
    """The value of a streams group target assignment metadata record."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = field(default=0, tag=0)


@message(versions=(0, 0), record_type=23)
class StreamsGroupTopologyKey(Message):
    """The key of a streams group topology record."""

    group_id: str = field(default="", until=0)


@struct
class TopicConfig(Struct):
    """One of `TopicInfo.topic_configs`."""

    key: str = ""
    value: str = ""


@struct
class TopicInfo(Struct):
    """One of `Subtopology.state_changelog_topics`."""

    name: str = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[TopicConfig] = field(default_factory=list)


@struct
class CopartitionGroup(Struct):
    """One of `Subtopology.copartition_groups`."""

    source_topics: list[Int16] = field(default_factory=list)
    source_topic_regex: list[Int16] = field(default_factory=list)
    repartition_source_topics: list[Int16] = field(default_factory=list)


@struct
class Subtopology(Struct):
    """One of `StreamsGroupTopologyValue.subtopologies`."""

    subtopology_id: str = ""
    source_topics: list[str] = field(default_factory=list)
    source_topic_regex: list[str] = field(default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)
    repartition_sink_topics: list[str] = field(default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)
    copartition_groups: list[CopartitionGroup] = field(default_factory=list)


@message(versions=(0, 0), flexible=0, record_type=23)
class StreamsGroupTopologyValue(Message):
    """The value of a streams group topology record."""

    epoch: Int32 = 0
    subtopologies: list[Subtopology] = field(default_factory=list)
