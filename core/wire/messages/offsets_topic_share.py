"""The records of `__consumer_offsets` for share groups (KIP-932)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Message, Struct, field, message, struct
from pk.core.wire.types import Int8, Int32, Int64, Uuid


@message(versions=(0, 0), record_type=14)
class ShareGroupCurrentMemberAssignmentKey(Message):
    """The key of a share group current member assignment record."""

    group_id: str = field(default="", until=0)
    member_id: str = field(default="", until=0)


@struct
class TopicPartitions(Struct):
    """One of `ShareGroupCurrentMemberAssignmentValue.assigned_partitions`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


@message(versions=(0, 0), flexible=0, record_type=14)
class ShareGroupCurrentMemberAssignmentValue(Message):
    """The value of a share group current member assignment record."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)


@message(versions=(0, 0), record_type=10)
class ShareGroupMemberMetadataKey(Message):
    """The key of a share group member metadata record."""

    group_id: str = field(default="", until=0)
    member_id: str = field(default="", until=0)


@message(versions=(0, 0), flexible=0, record_type=10)
class ShareGroupMemberMetadataValue(Message):
    """The value of a share group member metadata record."""

    rack_id: str | None = field(default="", nullable=0)
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)


@message(versions=(0, 0), record_type=11)
class ShareGroupMetadataKey(Message):
    """The key of a share group metadata record."""

    group_id: str = field(default="", until=0)


@message(versions=(0, 0), flexible=0, record_type=11)
class ShareGroupMetadataValue(Message):
    """The value of a share group metadata record."""

    epoch: Int32 = 0
    metadata_hash: Int64 = 0


@message(versions=(0, 0), record_type=15)
class ShareGroupStatePartitionMetadataKey(Message):
    """The key of a share group state partition metadata record."""

    group_id: str = field(default="", until=0)


@struct
class TopicPartitionsInfo(Struct):
    """One of `ShareGroupStatePartitionMetadataValue.initializing_topics`."""

    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class TopicInfo(Struct):
    """One of `ShareGroupStatePartitionMetadataValue.deleting_topics`."""

    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""


@message(versions=(0, 0), flexible=0, record_type=15)
class ShareGroupStatePartitionMetadataValue(Message):
    """The value of a share group state partition metadata record."""

    initializing_topics: list[TopicPartitionsInfo] = field(default_factory=list)
    initialized_topics: list[TopicPartitionsInfo] = field(default_factory=list)
    deleting_topics: list[TopicInfo] = field(default_factory=list)


@message(versions=(0, 0), record_type=13)
class ShareGroupTargetAssignmentMemberKey(Message):
    """The key of a share group target assignment member record."""

    group_id: str = field(default="", until=0)
    member_id: str = field(default="", until=0)


@struct
class TopicPartition(Struct):
    """One of `ShareGroupTargetAssignmentMemberValue.topic_partitions`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


@message(versions=(0, 0), flexible=0, record_type=13)
class ShareGroupTargetAssignmentMemberValue(Message):
    """The value of a share group target assignment member record."""

    topic_partitions: list[TopicPartition] = field(default_factory=list)


@message(versions=(0, 0), record_type=12)
class ShareGroupTargetAssignmentMetadataKey(Message):
    """The key of a share group target assignment metadata record."""

    group_id: str = field(default="", until=0)


@message(versions=(0, 0), flexible=0, record_type=12)
class ShareGroupTargetAssignmentMetadataValue(Message):
    """The value of a share group target assignment metadata record."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = field(default=0, tag=0)
