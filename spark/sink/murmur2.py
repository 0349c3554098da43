"""Computes the partitions of a column of keys as Java's producer does, without a Python object for
each key.

murmur2 processes a key in words of four bytes, so word n of all keys that have one is processed at
once.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_SEED: Final = np.uint32(0x9747B28C)

Words = npt.NDArray[np.uint32]
Ints = npt.NDArray[np.int64]


def partitions_for_keys(keys: pa.Array, partitions: int) -> Ints:
    """The partition of each key among `partitions`; arbitrary for null keys. `keys` is a binary
    array."""
    return (_murmur2(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


def _murmur2(keys: pa.Array) -> Words:
    _, offsets_buffer, data_buffer = keys.buffers()
    count, first = len(keys), keys.offset
    offsets = np.frombuffer(offsets_buffer, np.int32)[first : first + count + 1].astype(np.int64)
    # The last word of a key may be read beyond the end of the data, so add padding.
    raw = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    data: npt.NDArray[np.uint8] = np.concatenate((raw, np.zeros(4, np.uint8)))
    at, size = offsets[:-1].copy(), np.diff(offsets)
    hashes: Words = _SEED ^ size.astype(np.uint32)
    words = size >> 2
    for number in range(int(words.max(initial=0))):
        which: Any = np.flatnonzero(words > number)
        word = _word(data, at[which] + 4 * number)
        word *= _MULTIPLIER
        word ^= word >> np.uint32(24)
        word *= _MULTIPLIER
        hashes[which] = (hashes[which] * _MULTIPLIER) ^ word
    tail = size & 3
    which = np.flatnonzero(tail)
    if len(which):
        mask = (np.uint32(1) << (8 * tail[which]).astype(np.uint32)) - np.uint32(1)
        rest = _word(data, at[which] + 4 * words[which]) & mask
        hashes[which] = (hashes[which] ^ rest) * _MULTIPLIER
    hashes ^= hashes >> np.uint32(13)
    hashes *= _MULTIPLIER
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _word(data: npt.NDArray[np.uint8], at: Ints) -> Words:
    """The little-endian words at positions `at`."""
    word = data[at].astype(np.uint32)
    for byte in range(1, 4):
        word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word
