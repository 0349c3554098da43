"""The records of `__consumer_offsets`, as Kafka 4.3.1 writes them: a key and a value that each
begin with their version.

The key's version is the record's type. Unknown types, written by a newer Apache Kafka in the same
directory, are skipped when a partition is loaded.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pk.core.errors import ProtocolError
from pk.core.values import NO_TIMESTAMP
from pk.core.wire.codec import decode
from pk.core.wire.messages import offsets_topic as wire
from pk.core.wire.messages import offsets_topic_share as share
from pk.core.wire.messages import offsets_topic_streams as streams
from pk.core.wire.messages.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from pk.core.wire.schema import Message
from pk.core.wire.versioned import by_record_type, encode_key, encode_versioned, version_of

LEGACY_OFFSET_COMMIT_TYPE: Final = 0

GROUP_METADATA_VERSION: Final = 3
OFFSET_COMMIT_VERSION: Final = 4
OFFSET_COMMIT_EXPIRING_VERSION: Final = 1
"""The only version of the value that can contain an expiry time."""

KEYS: Final = by_record_type(
    (
        wire.OffsetCommitKey,
        wire.GroupMetadataKey,
        wire.ConsumerGroupMetadataKey,
        wire.ConsumerGroupPartitionMetadataKey,
        wire.ConsumerGroupMemberMetadataKey,
        wire.ConsumerGroupTargetAssignmentMetadataKey,
        wire.ConsumerGroupTargetAssignmentMemberKey,
        wire.ConsumerGroupCurrentMemberAssignmentKey,
        wire.ConsumerGroupRegularExpressionKey,
        share.ShareGroupMemberMetadataKey,
        share.ShareGroupMetadataKey,
        share.ShareGroupTargetAssignmentMetadataKey,
        share.ShareGroupTargetAssignmentMemberKey,
        share.ShareGroupCurrentMemberAssignmentKey,
        share.ShareGroupStatePartitionMetadataKey,
        streams.StreamsGroupMetadataKey,
        streams.StreamsGroupTopologyKey,
        streams.StreamsGroupMemberMetadataKey,
        streams.StreamsGroupTargetAssignmentMetadataKey,
        streams.StreamsGroupTargetAssignmentMemberKey,
        streams.StreamsGroupCurrentMemberAssignmentKey,
    )
) | {LEGACY_OFFSET_COMMIT_TYPE: wire.OffsetCommitKey}
"""The key of each record type. Types 0 and 1 have the same fields in their keys."""

VALUES: Final = by_record_type(
    (
        wire.OffsetCommitValue,
        wire.GroupMetadataValue,
        wire.ConsumerGroupMetadataValue,
        wire.ConsumerGroupPartitionMetadataValue,
        wire.ConsumerGroupMemberMetadataValue,
        wire.ConsumerGroupTargetAssignmentMetadataValue,
        wire.ConsumerGroupTargetAssignmentMemberValue,
        wire.ConsumerGroupCurrentMemberAssignmentValue,
        wire.ConsumerGroupRegularExpressionValue,
        share.ShareGroupMemberMetadataValue,
        share.ShareGroupMetadataValue,
        share.ShareGroupTargetAssignmentMetadataValue,
        share.ShareGroupTargetAssignmentMemberValue,
        share.ShareGroupCurrentMemberAssignmentValue,
        share.ShareGroupStatePartitionMetadataValue,
        streams.StreamsGroupMetadataValue,
        streams.StreamsGroupTopologyValue,
        streams.StreamsGroupMemberMetadataValue,
        streams.StreamsGroupTargetAssignmentMetadataValue,
        streams.StreamsGroupTargetAssignmentMemberValue,
        streams.StreamsGroupCurrentMemberAssignmentValue,
    )
) | {LEGACY_OFFSET_COMMIT_TYPE: wire.OffsetCommitValue}


EncodedRecord = tuple[bytes, bytes | None]
"""A key and a value as bytes."""


class Record(NamedTuple):
    """One record of the topic. A value of None is a tombstone."""

    key: Message
    value: Message | None


def offset_commit(group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> Record:
    """The record of a committed offset."""
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """The tombstone of a committed offset."""
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def group_metadata(group_id: str, value: GroupMetadataValue) -> Record:
    """The record of a group's generation."""
    return Record(GroupMetadataKey(group=group_id), value)


def empty_group_metadata(group_id: str, timestamp_ms: int) -> Record:
    """The first record of a classic group: no members, generation 0, no protocol type."""
    return group_metadata(
        group_id,
        GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=timestamp_ms,
            members=[],
        ),
    )


def group_tombstone(group_id: str) -> Record:
    """The tombstone of a classic group."""
    return Record(GroupMetadataKey(group=group_id), None)


def encode_record(record: Record) -> EncodedRecord:
    """Encode a record as the (key, value) of the log."""
    key, value = record
    if value is None:
        return encode_key(key), None
    version = 0
    if isinstance(value, OffsetCommitValue):
        version = OFFSET_COMMIT_VERSION
        if value.expire_timestamp != NO_TIMESTAMP:
            version = OFFSET_COMMIT_EXPIRING_VERSION
    elif isinstance(value, GroupMetadataValue):
        version = GROUP_METADATA_VERSION
    return encode_key(key), encode_versioned(value, version)


def decode_record(key: bytes, value: bytes | None) -> Record | None:
    """Decode a record of the log. Returns None if its type is unknown. Raises ProtocolError for
    malformed bytes."""
    kind = version_of(key)
    key_type = KEYS.get(kind)
    if key_type is None:
        return None
    decoded_key, _ = decode(key_type, key, 0, 2)
    if value is None:
        return Record(decoded_key, None)
    value_type = VALUES[kind]
    version = version_of(value)
    if not 0 <= version <= value_type.VERSIONS[1]:
        raise ProtocolError(f"{value_type.__name__}: version {version} is not known")
    decoded_value, _ = decode(value_type, value, version, 2)
    return Record(decoded_key, decoded_value)
