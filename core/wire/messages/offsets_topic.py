"""The records of `__consumer_offsets` for committed offsets, classic groups and consumer groups
(KIP-848).

A key begins with its version, which is the record's type; a value begins with its version. What
is null by nature but not by default, as `classic_member_metadata`, must be set to None: so
Kafka's own files have it. Share groups and streams groups have files of their own.
"""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Message, Struct, field, message, struct
from pk.core.wire.types import Int8, Int32, Int64, Uuid


@message(versions=(0, 0), record_type=8)
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Whose consumer group current member assignment the record holds."""

    group_id: str = field(default="", until=0)
    member_id: str = field(default="", until=0)


@struct
class TopicPartitions(Struct):
    """One of `ConsumerGroupCurrentMemberAssignmentValue.assigned_partitions`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)
    assignment_epochs: list[Int32] | None = field(default_factory=list, nullable=0, tag=0)


@message(versions=(0, 0), flexible=0, record_type=8)
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """The consumer group current member assignment itself."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[TopicPartitions] = field(default_factory=list)


@message(versions=(0, 0), record_type=5)
class ConsumerGroupMemberMetadataKey(Message):
    """Whose consumer group member metadata the record holds."""

    group_id: str = field(default="", until=0)
    member_id: str = field(default="", until=0)


@struct
class ClassicProtocol(Struct):
    """One of `ClassicMemberMetadata.supported_protocols`."""

    name: str = ""
    metadata: bytes = b""


@struct
class ClassicMemberMetadata(Struct):
    """The value of `ConsumerGroupMemberMetadataValue.classic_member_metadata`."""

    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)


@message(versions=(0, 0), flexible=0, record_type=5)
class ConsumerGroupMemberMetadataValue(Message):
    """The consumer group member metadata itself."""

    instance_id: str | None = field(default="", nullable=0)
    rack_id: str | None = field(default="", nullable=0)
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = field(default="", nullable=0)
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None = field(default="", nullable=0)
    classic_member_metadata: ClassicMemberMetadata | None = field(
        default_factory=ClassicMemberMetadata, nullable=0, tag=0
    )


@message(versions=(0, 0), record_type=3)
class ConsumerGroupMetadataKey(Message):
    """Whose consumer group metadata the record holds."""

    group_id: str = field(default="", until=0)


@message(versions=(0, 0), flexible=0, record_type=3)
class ConsumerGroupMetadataValue(Message):
    """The consumer group metadata itself."""

    epoch: Int32 = 0
    metadata_hash: Int64 = field(default=0, tag=0)


@message(versions=(0, 0), record_type=4)
class ConsumerGroupPartitionMetadataKey(Message):
    """Whose consumer group partition metadata the record holds."""

    group_id: str = field(default="", until=0)


@struct
class PartitionMetadata(Struct):
    """One of `TopicMetadata.partition_metadata`."""

    partition: Int32 = 0
    racks: list[str] = field(default_factory=list)


@struct
class TopicMetadata(Struct):
    """One of `ConsumerGroupPartitionMetadataValue.topics`."""

    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    num_partitions: Int32 = 0
    partition_metadata: list[PartitionMetadata] = field(default_factory=list)


@message(versions=(0, 0), flexible=0, record_type=4)
class ConsumerGroupPartitionMetadataValue(Message):
    """The consumer group partition metadata itself."""

    topics: list[TopicMetadata] = field(default_factory=list)


@message(versions=(0, 0), record_type=16)
class ConsumerGroupRegularExpressionKey(Message):
    """Whose consumer group regular expression the record holds."""

    group_id: str = field(default="", until=0)
    regular_expression: str = field(default="", until=0)


@message(versions=(0, 0), flexible=0, record_type=16)
class ConsumerGroupRegularExpressionValue(Message):
    """The consumer group regular expression itself."""

    topics: list[str] = field(default_factory=list)
    version: Int64 = 0
    timestamp: Int64 = 0


@message(versions=(0, 0), record_type=7)
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Whose consumer group target assignment member the record holds."""

    group_id: str = field(default="", until=0)
    member_id: str = field(default="", until=0)


@struct
class TopicPartition(Struct):
    """One of `ConsumerGroupTargetAssignmentMemberValue.topic_partitions`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


@message(versions=(0, 0), flexible=0, record_type=7)
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """The consumer group target assignment member itself."""

    topic_partitions: list[TopicPartition] = field(default_factory=list)


@message(versions=(0, 0), record_type=6)
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """Whose consumer group target assignment metadata the record holds."""

    group_id: str = field(default="", until=0)


@message(versions=(0, 0), flexible=0, record_type=6)
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The consumer group target assignment metadata itself."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = field(default=0, tag=0)


@message(versions=(0, 0), record_type=2)
class GroupMetadataKey(Message):
    """Whose group metadata the record holds."""

    group: str = field(default="", until=0)


@struct
class MemberMetadata(Struct):
    """One of `GroupMetadataValue.members`."""

    member_id: str = ""
    group_instance_id: str | None = field(default=None, since=3, nullable=3, ignorable=True)
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Int32 = field(default=-1, since=1, ignorable=True)
    session_timeout: Int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


@message(versions=(0, 4), flexible=4, record_type=2)
class GroupMetadataValue(Message):
    """The group metadata itself."""

    protocol_type: str = ""
    generation: Int32 = 0
    protocol: str | None = field(default="", nullable=0)
    leader: str | None = field(default="", nullable=0)
    current_state_timestamp: Int64 = field(default=-1, since=2, ignorable=True)
    members: list[MemberMetadata] = field(default_factory=list)


@message(versions=(0, 0), record_type=1)
class OffsetCommitKey(Message):
    """Whose offset commit the record holds."""

    group: str = field(default="", until=0)
    topic: str = field(default="", until=0)
    partition: Int32 = field(default=0, until=0)


@message(versions=(0, 4), flexible=4, record_type=1)
class OffsetCommitValue(Message):
    """The offset commit itself."""

    offset: Int64 = 0
    leader_epoch: Int32 = field(default=-1, since=3, ignorable=True)
    metadata: str = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = field(default=-1, since=1, until=1, ignorable=True)
    topic_id: Uuid = field(default=ZERO_UUID, since=4, tag=0, ignorable=True)
