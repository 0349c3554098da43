"""The records of `__remote_log_metadata` (KIP-405), which list the segments in remote storage.

A record has no key. Its value begins with a frame version (1), the record's type and its version,
each an unsigned varint.
"""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Message, Struct, field, message, struct
from pk.core.wire.types import Int8, Int32, Int64, Uuid


@struct
class TopicIdPartitionEntry(Struct):
    """A partition, by the name and the id of its topic."""

    name: str = ""
    id: Uuid = ZERO_UUID
    partition: Int32 = 0


@struct
class RemoteLogSegmentIdEntry(Struct):
    """A remote segment: its partition, and an id that is different for each attempt to copy it."""

    topic_id_partition: TopicIdPartitionEntry = field(default_factory=TopicIdPartitionEntry)
    id: Uuid = ZERO_UUID


@struct
class SegmentLeaderEpochEntry(Struct):
    """A leader epoch within a segment, and its first offset there."""

    leader_epoch: Int32 = 0
    offset: Int64 = 0


@message(versions=(0, 0), flexible=0, record_type=0)
class RemoteLogSegmentMetadataRecord(Message):
    """A leader has begun to copy a segment."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = field(default_factory=RemoteLogSegmentIdEntry)
    start_offset: Int64 = 0
    end_offset: Int64 = 0
    broker_id: Int32 = 0
    max_timestamp_ms: Int64 = 0
    event_timestamp_ms: Int64 = 0
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field(default_factory=list)
    segment_size_in_bytes: Int32 = 0
    custom_metadata: bytes | None = field(default=b"", nullable=0)
    remote_log_segment_state: Int8 = 0
    txn_index_empty: bool = field(default=False, tag=0, ignorable=True)


@message(versions=(0, 0), flexible=0, record_type=1)
class RemoteLogSegmentMetadataUpdateRecord(Message):
    """The state of a remote segment has changed."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = field(default_factory=RemoteLogSegmentIdEntry)
    broker_id: Int32 = 0
    event_timestamp_ms: Int64 = 0
    custom_metadata: bytes | None = field(default=b"", nullable=0)
    remote_log_segment_state: Int8 = 0


@message(versions=(0, 0), flexible=0, record_type=2)
class RemotePartitionDeleteMetadataRecord(Message):
    """The state of deleting a partition's remote segments has changed."""

    topic_id_partition: TopicIdPartitionEntry = field(default_factory=TopicIdPartitionEntry)
    broker_id: Int32 = 0
    event_timestamp_ms: Int64 = 0
    remote_partition_delete_state: Int8 = 0


@message(versions=(0, 0), flexible=0, record_type=3)
class RemoteLogSegmentMetadataSnapshotRecord(Message):
    """A remote segment without its partition, as in the files in which Apache Kafka stores this
    state."""

    segment_id: Uuid = ZERO_UUID
    start_offset: Int64 = 0
    end_offset: Int64 = 0
    broker_id: Int32 = 0
    max_timestamp_ms: Int64 = 0
    event_timestamp_ms: Int64 = 0
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field(default_factory=list)
    segment_size_in_bytes: Int32 = 0
    custom_metadata: bytes | None = field(default=b"", nullable=0)
    remote_log_segment_state: Int8 = 0
    txn_index_empty: bool = field(default=False, tag=0, ignorable=True)
