"""The records of `__consumer_offsets`, as Kafka 4.3.1 writes them: a key and a value that each begin with their version.

The key's version is the record's type. Types that this program does not keep (groups of KIP-848, share and streams groups,
written by an Apache Kafka whose directory we took over) are passed over when a partition is loaded.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from pk.core.errors import ProtocolError
from pk.core.values import NO_TIMESTAMP, ZERO_UUID, Uuid
from pk.core.wire.codec import decode, encode
from pk.core.wire.messages.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

LEGACY_OFFSET_COMMIT_TYPE: Final = 0
OFFSET_COMMIT_TYPE: Final = 1
GROUP_METADATA_TYPE: Final = 2

GROUP_METADATA_VERSION: Final = 3
OFFSET_COMMIT_VERSION: Final = 4
OFFSET_COMMIT_EXPIRING_VERSION: Final = 1
"""The one version of the value that can say when the offset expires."""

_VERSION: Final = struct.Struct(">h")

_TYPES: Final[dict[int, tuple[type[Any], type[Any], int]]] = {
    LEGACY_OFFSET_COMMIT_TYPE: (OffsetCommitKey, OffsetCommitValue, 4),
    OFFSET_COMMIT_TYPE: (OffsetCommitKey, OffsetCommitValue, 4),
    GROUP_METADATA_TYPE: (GroupMetadataKey, GroupMetadataValue, 4),
}
"""Type → key, value, the newest version of the value. Types 0 and 1 have the same fields in their keys."""


class Record(NamedTuple):
    """One record of the topic; a value of None is a tombstone."""

    key: OffsetCommitKey | GroupMetadataKey
    value: OffsetCommitValue | GroupMetadataValue | None


def offset_commit(
    group_id: str,
    topic: str,
    partition: int,
    *,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int = NO_TIMESTAMP,
    topic_id: Uuid,
) -> Record:
    """The record of a committed offset. One with a time to expire at is of a version that cannot hold the topic's id."""
    return Record(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=commit_timestamp_ms,
            expire_timestamp=expire_timestamp_ms,
            topic_id=topic_id if expire_timestamp_ms == NO_TIMESTAMP else ZERO_UUID,
        ),
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """The record that forgets a committed offset."""
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def group_metadata(group_id: str, value: GroupMetadataValue) -> Record:
    """The record of a group's generation."""
    return Record(GroupMetadataKey(group=group_id), value)


def empty_group_metadata(group_id: str, timestamp_ms: int) -> Record:
    """The first record of a group: nobody has joined, generation 0, no protocol type."""
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
    """The record that ends a group."""
    return Record(GroupMetadataKey(group=group_id), None)


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """(key, value) as they lie in the log."""
    key, value = record
    if isinstance(key, OffsetCommitKey):
        encoded = _VERSION.pack(OFFSET_COMMIT_TYPE) + encode(key, 0)
        version = OFFSET_COMMIT_VERSION
        if isinstance(value, OffsetCommitValue) and value.expire_timestamp != NO_TIMESTAMP:
            version = OFFSET_COMMIT_EXPIRING_VERSION
    else:
        encoded = _VERSION.pack(GROUP_METADATA_TYPE) + encode(key, 0)
        version = GROUP_METADATA_VERSION
    if value is None:
        return encoded, None
    return encoded, _VERSION.pack(version) + encode(value, version)


def decode_record(key: bytes, value: bytes | None) -> Record | None:
    """The record, or None for a type that is not kept. Raises ProtocolError for bytes that are no such record."""
    if len(key) < 2:
        raise ProtocolError("a key of the offsets topic without a version")
    kind = _TYPES.get(_VERSION.unpack_from(key)[0])
    if kind is None:
        return None
    key_type, value_type, version_max = kind
    decoded_key, _ = decode(key_type, key, 0, 2)
    if value is None:
        return Record(decoded_key, None)
    if len(value) < 2:
        raise ProtocolError("a value of the offsets topic without a version")
    version = _VERSION.unpack_from(value)[0]
    if not 0 <= version <= version_max:
        raise ProtocolError(f"{value_type.__name__}: version {version} is not known")
    decoded_value, _ = decode(value_type, value, version, 2)
    return Record(decoded_key, decoded_value)
