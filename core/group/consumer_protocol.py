"""Subscriptions and assignments of consumers in a classic group, as bytes: Java's ConsumerProtocol
and `userData`.

JoinGroup contains a subscription, SyncGroup an assignment. Each begins with its version. An unknown
newer version is read as the newest known one, because new fields are only added at the end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from pk.core.errors import ProtocolError
from pk.core.group.java import computed_order
from pk.core.values import TopicPartition
from pk.core.wire.codec import decode, encode
from pk.core.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from pk.core.wire.messages.consumer_protocol import TopicPartition as TopicPartitions

SUBSCRIPTION_VERSION_MAX: Final = 3
NO_GENERATION: Final = -1

_VERSION: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class Subscription(Struct, frozen=True):
    """The topics that a member is subscribed to, and the partitions that it had."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    """The partitions that a cooperative member still owns (KIP-429)."""
    generation: int = NO_GENERATION
    """The last generation in which the member got an assignment (KIP-792)."""
    rack: str | None = None
    """The member's rack (KIP-881)."""
    instance_id: str | None = None
    """The group instance id. It is not encoded: JoinGroup's response has it in a separate field."""


def encode_subscription(
    subscription: Subscription, version: int = SUBSCRIPTION_VERSION_MAX
) -> bytes:
    """Encode a member's metadata in JoinGroup, as Java's consumer does."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=_grouped(sorted(subscription.owned)),
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return _VERSION.pack(version) + encode(message, version)


def decode_subscription(data: bytes, instance_id: str | None = None) -> Subscription:
    """Decode a member's metadata in JoinGroup. Raises ProtocolError."""
    message, _ = decode(ConsumerProtocolSubscription, data, _version(data), 2)
    return Subscription(
        tuple(message.topics),
        message.user_data,
        tuple(_flat(message.owned_partitions)),
        max(message.generation_id, NO_GENERATION),
        message.rack_id or None,
        instance_id,
    )


def encode_assignment(
    partitions: Iterable[TopicPartition],
    user_data: bytes | None = None,
    version: int = SUBSCRIPTION_VERSION_MAX,
) -> bytes:
    """Encode a member's assignment in SyncGroup, as Java's consumer does."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=_grouped(partitions), user_data=user_data
    )
    return _VERSION.pack(version) + encode(message, version)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Decode the partitions of an assignment. Empty bytes, which a member gets that the leader left
    out, are an empty assignment.

    Raises ProtocolError.
    """
    if not data:
        return []
    message, _ = decode(ConsumerProtocolAssignment, data, _version(data), 2)
    return list(_flat(message.assigned_partitions))


def encode_sticky_user_data(partitions: Sequence[TopicPartition], generation: int) -> bytes:
    """Encode the user data of a member of the `sticky` assignor: its partitions and their
    generation (version 1)."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    out = bytearray(_INT32.pack(len(by_topic)))
    for topic in computed_order(topic for topic, _ in partitions):
        name = topic.encode()
        indexes = by_topic[topic]
        out += struct.pack(
            f">h{len(name)}si{len(indexes)}i", len(name), name, len(indexes), *indexes
        )
    return bytes(out + _INT32.pack(generation))


def decode_sticky_user_data(data: bytes | None) -> tuple[list[TopicPartition], int]:
    """Decode (partitions, generation) of version 1, or of version 0, which has no generation.
    Unreadable bytes give no partitions."""
    if not data:
        return [], NO_GENERATION
    partitions: list[TopicPartition] = []
    try:
        (topics,) = _INT32.unpack_from(data)
        if not 0 <= topics <= len(data) - 4:
            return [], NO_GENERATION
        position = 4
        for _ in range(topics):
            (size,) = _VERSION.unpack_from(data, position)
            position += 2
            name = data[position : position + size]
            if size < 0 or len(name) < size:
                return [], NO_GENERATION
            topic = name.decode(errors="replace")
            position += size
            (count,) = _INT32.unpack_from(data, position)
            position += 4
            if count < 0:
                return [], NO_GENERATION
            indexes = struct.unpack_from(f">{count}i", data, position)
            position += 4 * count
            partitions += [TopicPartition(topic, index) for index in indexes]
    except (struct.error, MemoryError, OverflowError):
        return [], NO_GENERATION
    if len(data) - position < 4:
        return partitions, NO_GENERATION
    return partitions, _INT32.unpack_from(data, position)[0]


def encode_cooperative_user_data(generation: int) -> bytes:
    """Encode the user data of a member of the `cooperative-sticky` assignor. Its partitions are in
    the subscription."""
    return _INT32.pack(generation)


def decode_cooperative_user_data(data: bytes | None) -> int:
    """Decode the generation. Returns -1 if there is none."""
    return _INT32.unpack_from(data)[0] if data is not None and len(data) >= 4 else NO_GENERATION


def _version(data: bytes) -> int:
    if len(data) < 2 or data[0] & 0x80:
        raise ProtocolError("consumer protocol data without a version")
    return min(_VERSION.unpack_from(data)[0], SUBSCRIPTION_VERSION_MAX)


def _grouped(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic=t, partitions=p) for t, p in by_topic.items()]


def _flat(topics: Iterable[TopicPartitions]) -> Iterable[TopicPartition]:
    return [TopicPartition(t.topic, p) for t in topics for p in t.partitions]
