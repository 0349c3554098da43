"""The records of `__share_group_state`, as Kafka 4.3.1 writes them: a key and a value that each
begin with their version.

A *snapshot* holds the whole state of a share partition, an *update* the changes of one write since.
A record without a value is a tombstone: the state of the share partition was deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pk.core.errors import ProtocolError
from pk.core.share.batches import StateBatch
from pk.core.values import TopicIdPartition, Uuid, uuid_from_text, uuid_text
from pk.core.wire.messages import share_topic as wire
from pk.core.wire.messages.share_topic import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from pk.core.wire.versioned import (
    by_record_type,
    decode_key,
    decode_versioned,
    encode_key,
    encode_versioned,
)

KEYS: Final = by_record_type((ShareSnapshotKey, ShareUpdateKey))
VALUE_VERSION: Final = 0


class ShareKey(NamedTuple):
    """A share partition: one partition as read by one share group."""

    group_id: str
    topic_id: Uuid
    partition: int

    @property
    def topic_partition(self) -> TopicIdPartition:
        """The partition, without the group."""
        return TopicIdPartition(self.topic_id, self.partition)

    @property
    def coordinator_key(self) -> str:
        """The key by which FindCoordinator (key type 2) finds its share coordinator."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"

    @classmethod
    def of_coordinator_key(cls, text: str) -> ShareKey:
        """Parse a `coordinator_key`. Raises ValueError if it is not one."""
        parts = text.rsplit(":", 2)
        if len(parts) != 3 or not parts[0].strip():
            raise ValueError(f"no group:topic id:partition: {text!r}")
        return cls(parts[0], uuid_from_text(parts[1]), int(parts[2]))


class Snapshot(NamedTuple):
    """The whole state of a share partition."""

    snapshot_epoch: int
    """The number of earlier snapshots."""
    state_epoch: int
    """An epoch that rises when the group sets its start offset. Writes with an older one are
    fenced."""
    leader_epoch: int
    """The epoch of the partition leader that last loaded the state."""
    start_offset: int
    """The offset where delivery begins, or -1 if the leader has not yet chosen it."""
    delivery_complete_count: int
    """The number of finished records from the start offset on, or -1 if unknown."""
    batches: tuple[StateBatch, ...] = ()
    created_ms: int = 0
    written_ms: int = 0
    """When this snapshot was written. It is later than `created_ms` if a snapshot was repeated only
    because of its age."""


class Update(NamedTuple):
    """The changes of one write. A start offset or leader epoch of -1 leaves the current one."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...] = ()


class Record(NamedTuple):
    """One record of the topic."""

    key: ShareKey
    value: Snapshot | Update | None
    """The snapshot or update, or None for a tombstone."""


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Encode a record as the (key, value) of the log."""
    group_id, topic_id, partition = record.key
    value = record.value
    if isinstance(value, Update):
        key = ShareUpdateKey(group_id=group_id, topic_id=topic_id, partition=partition)
        update = ShareUpdateValue(
            snapshot_epoch=value.snapshot_epoch,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            delivery_complete_count=value.delivery_complete_count,
            state_batches=_to_wire(value.batches),
        )
        return encode_key(key), encode_versioned(update, VALUE_VERSION)
    key = ShareSnapshotKey(group_id=group_id, topic_id=topic_id, partition=partition)
    if value is None:
        return encode_key(key), None
    snapshot = ShareSnapshotValue(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        create_timestamp=value.created_ms,
        write_timestamp=value.written_ms,
        state_batches=_to_wire(value.batches),
    )
    return encode_key(key), encode_versioned(snapshot, VALUE_VERSION)


def decode_record(key: bytes, value: bytes | None) -> Record | None:
    """Decode a record of the log. Returns None if its type is unknown. Raises ProtocolError for
    malformed bytes."""
    decoded = decode_key(KEYS, key)
    if decoded is None:
        return None
    assert isinstance(decoded, ShareSnapshotKey | ShareUpdateKey)
    share_key = ShareKey(decoded.group_id, decoded.topic_id, decoded.partition)
    if isinstance(decoded, ShareUpdateKey):
        if value is None:
            raise ProtocolError("an update of a share partition without a value")
        update = decode_versioned(ShareUpdateValue, value)
        return Record(
            share_key,
            Update(
                update.snapshot_epoch,
                update.leader_epoch,
                update.start_offset,
                update.delivery_complete_count,
                _from_wire(update.state_batches),
            ),
        )
    if value is None:
        return Record(share_key, None)
    snapshot = decode_versioned(ShareSnapshotValue, value)
    return Record(
        share_key,
        Snapshot(
            snapshot.snapshot_epoch,
            snapshot.state_epoch,
            snapshot.leader_epoch,
            snapshot.start_offset,
            snapshot.delivery_complete_count,
            _from_wire(snapshot.state_batches),
            snapshot.create_timestamp,
            snapshot.write_timestamp,
        ),
    )


def _to_wire(batches: Iterable[StateBatch]) -> list[wire.StateBatch]:
    return [
        wire.StateBatch(
            first_offset=one.first_offset,
            last_offset=one.last_offset,
            delivery_state=one.delivery_state,
            delivery_count=one.delivery_count,
        )
        for one in batches
    ]


def _from_wire(batches: Iterable[wire.StateBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in batches
    )
