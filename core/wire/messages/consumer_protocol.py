"""The messages between consumers of classic groups, inside JoinGroup and SyncGroup. Each begins
with an int16, its version. v1 adds owned partitions (KIP-429), v2 generations (KIP-792), v3 racks
(KIP-881)."""

from pk.core.wire.schema import Message, Struct, field, message, struct
from pk.core.wire.types import Int32


@struct
class TopicPartition(Struct):
    """One of `ConsumerProtocolSubscription.owned_partitions`."""

    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)


@message(versions=(0, 3))
class ConsumerProtocolSubscription(Message):
    """The topics to which a member of a classic group subscribes, and the partitions that it owned
    before."""

    topics: list[str] = field(default_factory=list)
    user_data: bytes | None = field(default=None, nullable=0)
    owned_partitions: list[TopicPartition] = field(default_factory=list, since=1, ignorable=True)
    generation_id: Int32 = field(default=-1, since=2, ignorable=True)
    rack_id: str | None = field(default=None, since=3, nullable=3, ignorable=True)


@message(versions=(0, 3))
class ConsumerProtocolAssignment(Message):
    """The partitions that the leader of a classic group assigns to a member."""

    assigned_partitions: list[TopicPartition] = field(default_factory=list)
    user_data: bytes | None = field(default=None, nullable=0)
