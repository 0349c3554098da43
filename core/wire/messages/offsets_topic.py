"""The records of `__consumer_offsets` for committed offsets, classic groups and consumer groups
(KIP-848).

A key begins with its version, which is the record's type; a value begins with its version. Fields
that should be null but are not null by default, such as `classic_member_metadata`, must be set to
None, as in Kafka's own files. The records of share groups and streams groups are in other files.
"""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Message, Struct, field, message, struct
from pk.core.wire.types import Int8, Int32, Int64, Uuid


@message(versions=(0, 0), record_type=8)
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """The key of a consumer group current member assignment record."""

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
    """The value of a consumer group current member assignment record."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[TopicPartitions] = field(default_factory=list)


@message(versions=(0, 0), record_type=5)
class ConsumerGroupMemberMetadataKey(Message):
    """The key of a consumer group member metadata record."""

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
    """The value of a consumer group member metadata record."""

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
    """The key of a consumer group metadata record."""

    group_id: str = field(default="", until=0)


@message(versions=(0, 0), flexible=0, record_type=3)
class ConsumerGroupMetadataValue(Message):
    """The value of a consumer group metadata record."""

    epoch: Int32 = 0
    metadata_hash: Int64 = field(default=0, tag=0)


@message(versions=(0, 0), record_type=4)
class ConsumerGroupPartitionMetadataKey(Message):
    """The key of a consumer group partition metadata record."""

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
    """The value of a consumer group partition metadata record."""

    topics: list[TopicMetadata] = field(default_factory=list)


@message(versions=(0, 0), record_type=16)
class ConsumerGroupRegularExpressionKey(Message):
    """The key of a consumer group regular expression record."""

    group_id: str = field(default="", until=0)
    regular_expression: str = field(default="", until=0)


@message(versions=(0, 0), flexible=0, record_type=16)
class ConsumerGroupRegularExpressionValue(Message):
    """The value of a consumer group regular expression record."""

    topics: list[str] = field(default_factory=list)
    version: Int64 = 0
    timestamp: Int64 = 0


@message(versions=(0, 0), record_type=7)
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """The key of a consumer group target assignment member record."""

    group_id: str = field(default="", until=0)
    member_id: str = field(default="", until=0)


@struct
class TopicPartition(Struct):
    """One of `ConsumerGroupTargetAssignmentMemberValue.topic_partitions`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


@message(versions=(0, 0), flexible=0, record_type=7)
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """The value of a consumer group target assignment member record."""

    topic_partitions: list[TopicPartition] = field(default_factory=list)


@message(versions=(0, 0), record_type=6)
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """The key of a consumer group target assignment metadata record."""

    group_id: str = field(default="", until=0)


@message(versions=(0, 0), flexible=0, record_type=6)
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The value of a consumer group target assignment metadata record."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = field(default=0, tag=0)


@message(versions=(0, 0), record_type=2)
class GroupMetadataKey(Message):
    """The key of a group metadata record."""

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
    """The value of a group metadata record."""

    protocol_type: str = ""
    generation: Int32 = 0
    protocol: str | None = field(default="", nullable=0)
    leader: str | None = field(default="", nullable=0)
    current_state_timestamp: Int64 = field(default=-1, since=2, ignorable=True)
    members: list[MemberMetadata] = field(default_factory=list)


@message(versions=(0, 0), record_type=1)
class OffsetCommitKey(Message):
    """The key of an offset commit record."""

    group: str = field(default="", until=0)
    topic: str = field(default="", until=0)
    partition: Int32 = field(default=0, until=0)


@message(versions=(0, 4), flexible=4, record_type=1)
class OffsetCommitValue(Message):
    """The value of an offset commit record."""

    offset: Int64 = 0
    leader_epoch: Int32 = field(default=-1, since=3, ignorable=True)
    metadata: str = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = field(default=-1, since=1, until=1, ignorable=True)
    topic_id: Uuid = field(default=ZERO_UUID, since=4, tag=0, ignorable=True)
