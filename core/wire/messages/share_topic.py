"""The records of `__share_group_state` (KIP-932)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Message, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64, Uuid


@message(versions=(0, 0), record_type=0)
class ShareSnapshotKey(Message):
    """The key of a share snapshot record."""

    group_id: str = field(default="", until=0)
    topic_id: Uuid = field(default=ZERO_UUID, until=0)
    partition: Int32 = field(default=0, until=0)


@struct
class StateBatch(Struct):
    """One of `ShareSnapshotValue.state_batches`."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@message(versions=(0, 0), flexible=0, record_type=0)
class ShareSnapshotValue(Message):
    """The value of a share snapshot record."""

    snapshot_epoch: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(default=-1, tag=0)
    create_timestamp: Int64 = 0
    write_timestamp: Int64 = 0
    state_batches: list[StateBatch] = field(default_factory=list)


@message(versions=(0, 0), record_type=1)
class ShareUpdateKey(Message):
    """The key of a share update record."""

    group_id: str = field(default="", until=0)
    topic_id: Uuid = field(default=ZERO_UUID, until=0)
    partition: Int32 = field(default=0, until=0)


@message(versions=(0, 0), flexible=0, record_type=1)
class ShareUpdateValue(Message):
    """The value of a share update record."""

    snapshot_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(default=-1, tag=0)
    state_batches: list[StateBatch] = field(default_factory=list)
