"""Kafka's murmur2, which maps keys to partitions."""

import struct
from typing import Final

_MULTIPLIER: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Kafka's murmur2 (`org.apache.kafka.common.utils.Utils.murmur2`) as an unsigned 32-bit
    number."""
    size = len(data)
    h = _SEED ^ size
    words = size >> 2
    for k in struct.unpack_from(f"<{words}I", data):
        k = k * _MULTIPLIER & _MASK
        k = (k ^ (k >> 24)) * _MULTIPLIER & _MASK
        h = (h * _MULTIPLIER & _MASK) ^ k
    if tail := data[words << 2 :]:
        h = (h ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _MASK
    h = (h ^ (h >> 13)) * _MULTIPLIER & _MASK
    return h ^ (h >> 15)
