"""The consumers' embedded protocol: what a member says of its subscription, and what the leader assigns to it.

Each value begins with its version as int16 (ConsumerProtocolSubscription, ConsumerProtocolAssignment of Kafka). A newer
version than ours is read as our newest, as Java does: newer ones only add at the end.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pk.core.errors import ProtocolError
from pk.core.values import TopicPartition
from pk.core.wire.codec import decode, encode
from pk.core.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from pk.core.wire.messages.consumer_protocol import TopicPartition as TopicPartitions

_NEWEST: Final = 3


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise ProtocolError("a value of the consumer protocol without its version")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise ProtocolError(f"version {version} of the consumer protocol")
    return min(version, _NEWEST)


def _grouped(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic=t, partitions=sorted(ps)) for t, ps in sorted(by_topic.items())]


def encode_subscription(
    topics: Sequence[str],
    *,
    owned: Iterable[TopicPartition] = (),
    generation_id: int = -1,
    user_data: bytes | None = None,
    rack_id: str | None = None,
) -> bytes:
    """A member's metadata for JoinGroup, in our newest version."""
    subscription = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=_grouped(owned),
        generation_id=generation_id,
        rack_id=rack_id or None,
    )
    return _NEWEST.to_bytes(2, "big") + encode(subscription, _NEWEST)


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """A member's metadata. Raises ProtocolError."""
    return decode(ConsumerProtocolSubscription, data, _version(data), 2)[0]


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None) -> bytes:
    """What SyncGroup carries for one member."""
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=_grouped(partitions),
        user_data=user_data,
    )
    return _NEWEST.to_bytes(2, "big") + encode(assignment, _NEWEST)


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in an assignment. Raises ProtocolError."""
    assignment = decode(ConsumerProtocolAssignment, data, _version(data), 2)[0]
    return tuple(
        TopicPartition(t.topic, partition)
        for t in assignment.assigned_partitions
        for partition in t.partitions
    )
