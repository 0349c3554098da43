"""A hash of a group's topics: when it changes, the target assignment must be computed again.

Kafka 4.3.1 stores it in ConsumerGroupMetadataValue, so a group that moves between Kafka's brokers
and pk's is not reassigned without need. It is the XXH3 hash of the topics' ids, names, partition
counts and the racks of each partition's replicas.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pk.core.group.java import java_order
from pk.core.values import Uuid

_MAGIC: Final = b"\x00"
_INT: Final = struct.Struct("<i")
_LONGS: Final = struct.Struct("<QQ")
_HALVES: Final = struct.Struct(">QQ")
_LONG: Final = struct.Struct("<q")


def topic_hash(name: str, topic_id: Uuid, racks: Sequence[Collection[str]]) -> int:
    """Return the hash of one topic. `racks` are the racks of the replicas of each of its
    partitions."""
    parts = [_MAGIC, _LONGS.pack(*_HALVES.unpack(topic_id)), _text(name), _INT.pack(len(racks))]
    if not any(racks):
        return _hash(b"".join(parts) + struct.pack(f"<{len(racks)}i", *range(len(racks))))
    for partition, of_partition in enumerate(racks):
        parts.append(_INT.pack(partition))
        for rack in sorted(of_partition, key=java_order):
            parts += (_INT.pack(len(java_order(rack)) // 2), _text(rack))
    return _hash(b"".join(parts))


def group_hash(topics: Mapping[str, int]) -> int:
    """Return the hash of all topics of a group, given the hash of each, or 0 if there are none."""
    if not topics:
        return 0
    return _hash(b"".join(_LONG.pack(topics[name]) for name in sorted(topics, key=java_order)))


def _text(text: str) -> bytes:
    """Return the text's UTF-16 units, preceded by their number."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    return encoded + _INT.pack(len(encoded) // 2)


def _hash(data: bytes) -> int:
    import xxhash  # Imported at first use, because most programs never need it.

    value = xxhash.xxh3_64_intdigest(data)
    return value - (1 << 64) if value >> 63 else value
