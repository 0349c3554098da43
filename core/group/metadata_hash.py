"""A hash of what a group reads: when it changes, so does the target assignment.

Kafka 4.3.1 keeps it in ConsumerGroupMetadataValue, so a group that moves to a broker of the other
kind is not assigned again for nothing. It is XXH3 over the topics' ids, names, partition counts and
the racks of each partition's replicas.
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
    """The hash of one topic; `racks` has the racks of the replicas of each of its partitions."""
    parts = [_MAGIC, _LONGS.pack(*_HALVES.unpack(topic_id)), _text(name), _INT.pack(len(racks))]
    if not any(racks):
        return _hash(b"".join(parts) + struct.pack(f"<{len(racks)}i", *range(len(racks))))
    for partition, of_partition in enumerate(racks):
        parts.append(_INT.pack(partition))
        for rack in sorted(of_partition, key=java_order):
            parts += (_INT.pack(len(java_order(rack)) // 2), _text(rack))
    return _hash(b"".join(parts))


def group_hash(topics: Mapping[str, int]) -> int:
    """The hash of all topics a group reads, from each topic's; 0 if there is none."""
    if not topics:
        return 0
    return _hash(b"".join(_LONG.pack(topics[name]) for name in sorted(topics, key=java_order)))


def _text(text: str) -> bytes:
    """Its UTF-16 units, then how many."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    return encoded + _INT.pack(len(encoded) // 2)


def _hash(data: bytes) -> int:
    import xxhash  # when a group is first looked at: most programs never do

    value = xxhash.xxh3_64_intdigest(data)
    return value - (1 << 64) if value >> 63 else value
