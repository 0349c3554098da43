"""The metadata of remote segments, and its records in `__remote_log_metadata`, as Apache Kafka
4.3.1 writes them.

A segment goes through the states COPY_STARTED, COPY_FINISHED, DELETE_STARTED and DELETE_FINISHED. A
copy that failed goes from the first to the third. Each attempt to copy a segment has an id of its
own, so late records of a leader that lost its partition affect no other attempt.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias

from msgspec import Struct

from pk.core.errors import ProtocolError
from pk.core.log.epochs import EpochStart
from pk.core.murmur2 import murmur2
from pk.core.values import TopicIdPartition, TopicPartition, Uuid
from pk.core.wire.codec import Buffer, decode_whole, encode
from pk.core.wire.messages import remote_log_metadata as wire
from pk.core.wire.schema import Message

FRAME: Final = 1
"""The version of the frame before a record: this number, the record's type and its version."""
VERSION: Final = 0
_HEAD_BYTES: Final = 3


class SegmentState(IntEnum):
    """The state of a remote segment."""

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3


class PartitionDeleteState(IntEnum):
    """The progress of deleting a partition's remote segments."""

    MARKED = 0
    STARTED = 1
    FINISHED = 2


class RemotePartition(Struct, frozen=True):
    """A partition, by the name and the id of its topic."""

    topic: str
    topic_id: Uuid
    partition: int

    @property
    def key(self) -> TopicIdPartition:
        """The partition with only the topic's id."""
        return TopicIdPartition(self.topic_id, self.partition)

    @property
    def tp(self) -> TopicPartition:
        """The partition with only the topic's name."""
        return TopicPartition(self.topic, self.partition)


class RemoteSegment(Struct, frozen=True):
    """One attempt to copy a segment. Offsets are inclusive, times in ms since the epoch."""

    partition: RemotePartition
    id: Uuid
    start_offset: int
    end_offset: int
    broker_id: int
    max_timestamp: int
    event_ms: int
    epochs: tuple[EpochStart, ...]
    """The leader epochs with records in the segment, and their start offsets in it."""
    size: int
    """The size of the records in bytes."""
    state: SegmentState
    custom_metadata: bytes | None = None
    """The custom metadata of one of Apache Kafka's remote storage managers."""
    txn_index_empty: bool = False
    """Whether no transaction was aborted in the segment, as far as this is known."""


class SegmentUpdate(Struct, frozen=True):
    """A new state of a remote segment."""

    partition: RemotePartition
    id: Uuid
    broker_id: int
    event_ms: int
    state: SegmentState
    custom_metadata: bytes | None = None


class PartitionDelete(Struct, frozen=True):
    """A step in the deletion of all remote segments of a partition."""

    partition: RemotePartition
    broker_id: int
    event_ms: int
    state: PartitionDeleteState


Record: TypeAlias = RemoteSegment | SegmentUpdate | PartitionDelete

_CLASSES: Final[dict[int, type[Message]]] = {
    cls.RECORD_TYPE: cls
    for cls in (
        wire.RemoteLogSegmentMetadataRecord,
        wire.RemoteLogSegmentMetadataUpdateRecord,
        wire.RemotePartitionDeleteMetadataRecord,
    )
}


def encode_record(record: Record) -> bytes:
    """Encode the value of a record."""
    match record:
        case RemoteSegment():
            message = wire.RemoteLogSegmentMetadataRecord(
                remote_log_segment_id=_id_entry(record.partition, record.id),
                start_offset=record.start_offset,
                end_offset=record.end_offset,
                broker_id=record.broker_id,
                max_timestamp_ms=record.max_timestamp,
                event_timestamp_ms=record.event_ms,
                segment_leader_epochs=[
                    wire.SegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset)
                    for epoch, offset in record.epochs
                ],
                segment_size_in_bytes=record.size,
                custom_metadata=record.custom_metadata,
                remote_log_segment_state=record.state,
                txn_index_empty=record.txn_index_empty,
            )
        case SegmentUpdate():
            message = wire.RemoteLogSegmentMetadataUpdateRecord(
                remote_log_segment_id=_id_entry(record.partition, record.id),
                broker_id=record.broker_id,
                event_timestamp_ms=record.event_ms,
                custom_metadata=record.custom_metadata,
                remote_log_segment_state=record.state,
            )
        case PartitionDelete():
            message = wire.RemotePartitionDeleteMetadataRecord(
                topic_id_partition=_partition_entry(record.partition),
                broker_id=record.broker_id,
                event_timestamp_ms=record.event_ms,
                remote_partition_delete_state=record.state,
            )
    # Each of the three is a varint of one byte.
    return bytes((FRAME, message.RECORD_TYPE, VERSION)) + encode(message, VERSION)


def decode_record(value: Buffer) -> Record | None:
    """Decode the value of a record. Returns None for a record of an unknown type. Raises
    ProtocolError."""
    if len(value) < _HEAD_BYTES:
        raise ProtocolError("a record of remote log metadata without a type and a version")
    frame, record_type, version = value[:_HEAD_BYTES]
    if frame != FRAME:
        raise ProtocolError(f"a record of remote log metadata of frame version {frame}")
    cls = _CLASSES.get(record_type)
    if cls is None:
        return None
    if version != VERSION:
        raise ProtocolError(f"{cls.__name__} has no version {version}")
    message = decode_whole(cls, value, version, _HEAD_BYTES)
    try:
        return _record_of(message)
    except ValueError as e:  # an unknown state
        raise ProtocolError(f"{cls.__name__}: {e}") from e


def _record_of(message: Message) -> Record:
    match message:
        case wire.RemoteLogSegmentMetadataRecord():
            return RemoteSegment(
                partition=_partition_of(message.remote_log_segment_id.topic_id_partition),
                id=message.remote_log_segment_id.id,
                start_offset=message.start_offset,
                end_offset=message.end_offset,
                broker_id=message.broker_id,
                max_timestamp=message.max_timestamp_ms,
                event_ms=message.event_timestamp_ms,
                epochs=tuple(
                    EpochStart(entry.leader_epoch, entry.offset)
                    for entry in message.segment_leader_epochs
                ),
                size=message.segment_size_in_bytes,
                state=SegmentState(message.remote_log_segment_state),
                custom_metadata=message.custom_metadata,
                txn_index_empty=message.txn_index_empty,
            )
        case wire.RemoteLogSegmentMetadataUpdateRecord():
            return SegmentUpdate(
                partition=_partition_of(message.remote_log_segment_id.topic_id_partition),
                id=message.remote_log_segment_id.id,
                broker_id=message.broker_id,
                event_ms=message.event_timestamp_ms,
                state=SegmentState(message.remote_log_segment_state),
                custom_metadata=message.custom_metadata,
            )
        case wire.RemotePartitionDeleteMetadataRecord():
            return PartitionDelete(
                partition=_partition_of(message.topic_id_partition),
                broker_id=message.broker_id,
                event_ms=message.event_timestamp_ms,
                state=PartitionDeleteState(message.remote_partition_delete_state),
            )
        case _:
            raise AssertionError(message)


def _partition_entry(partition: RemotePartition) -> wire.TopicIdPartitionEntry:
    return wire.TopicIdPartitionEntry(
        name=partition.topic, id=partition.topic_id, partition=partition.partition
    )


def _id_entry(partition: RemotePartition, segment_id: Uuid) -> wire.RemoteLogSegmentIdEntry:
    return wire.RemoteLogSegmentIdEntry(
        topic_id_partition=_partition_entry(partition), id=segment_id
    )


def _partition_of(entry: wire.TopicIdPartitionEntry) -> RemotePartition:
    return RemotePartition(entry.name, entry.id, entry.partition)


def metadata_partition(partition: TopicIdPartition, partitions: int) -> int:
    """Return the partition of `__remote_log_metadata`, of the `partitions` that it has, for the
    records about `partition`. Computed as in Apache Kafka's RemoteLogMetadataTopicPartitioner."""
    most, least = partition.topic_id[:8], partition.topic_id[8:]
    value = 1
    for part in (_long_hash(least), _long_hash(most), partition.partition):
        value = (31 * value + part) & 0xFFFFFFFF
    return (murmur2(value.to_bytes(4, "big")) & 0x7FFFFFFF) % partitions


def _long_hash(data: bytes) -> int:
    """Compute Java's `Long.hashCode`, unsigned."""
    return int.from_bytes(data[:4], "big") ^ int.from_bytes(data[4:], "big")
