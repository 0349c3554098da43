"""Maps each key to its last offset, in bounded memory, for one round of compaction.

Short keys are stored as they are, longer ones as a hash of 16 bytes (BLAKE2b). This is safe: with a
billion keys, the probability that two have the same hash is 1 in 10²⁰. So the memory used depends
on the number of keys, not on their sizes. A key cannot be mistaken for another's hash, because keys
of exactly 16 bytes are hashed too.

Memory. Apache uses 24 bytes per key in its own table. A Python dict with its objects needs about
eight times that, which is accounted for here, so that `log.cleaner.dedupe.buffer.size` is the
memory that is actually used. A full map ends the round at the offset reached, and the next round
continues from there.
"""

from hashlib import blake2b
from typing import Final

BYTES_A_KEY: Final = 200
"""Memory per key, measured with keys of 32 bytes right after the dict has grown, when it has the
most unused space."""

KEYS_MIN: Final = 1000

_HASH_BYTES: Final = 16
_PLAIN_BYTES_MAX: Final = 32


def keys_max(buffer_bytes: int, load_factor: float, threads: int) -> int:
    """Return the maximum number of keys in the map of one of `threads` cleaners."""
    return max(int(buffer_bytes * load_factor / BYTES_A_KEY / max(threads, 1)), KEYS_MIN)


class KeyMap:
    """The last offsets of at most `keys_max` keys."""

    __slots__ = ("_offsets", "keys_max", "latest")

    def __init__(self, keys_max: int) -> None:
        self.keys_max = keys_max
        self.latest = -1
        """The offset up to which all keys have been added."""
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Record that `key` was seen at `offset`. Returns False, without recording it, if there is
        no room for another key."""
        if len(key) > _PLAIN_BYTES_MAX or len(key) == _HASH_BYTES:
            key = blake2b(key, digest_size=_HASH_BYTES).digest()
        offsets = self._offsets
        if len(offsets) >= self.keys_max and key not in offsets:
            return False
        offsets[key] = self.latest = offset
        return True

    def last(self, key: bytes) -> int:
        """Return the last offset of `key`, or -1."""
        if len(key) > _PLAIN_BYTES_MAX or len(key) == _HASH_BYTES:
            key = blake2b(key, digest_size=_HASH_BYTES).digest()
        return self._offsets.get(key, -1)
