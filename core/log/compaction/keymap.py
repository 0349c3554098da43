"""Key → the last offset it was seen at, in bounded memory: what one round of compaction knows.

A key stands for itself where it is short; else its hash of 16 bytes does (BLAKE2b), which is as
good: two of a billion keys have the same with a chance of 1 in 10²⁰. So memory goes by the number
of keys, not by their size. No key stands for another's hash, because one of exactly 16 bytes is
hashed too.

Memory. Apache keeps 24 bytes a key in a table of its own; a Python dict with its objects needs
about eight times that, which is counted here, so that `log.cleaner.dedupe.buffer.size` is the
memory that is used. A map that is full ends the round at the offset it has come to, and the next
round goes on from there.
"""

from hashlib import blake2b
from typing import Final

BYTES_A_KEY: Final = 200
"""Of memory, with the dict at its emptiest after growing: measured, keys of 32 bytes."""

KEYS_MIN: Final = 1000

_HASH_BYTES: Final = 16
_PLAIN_BYTES_MAX: Final = 32


def keys_max(buffer_bytes: int, load_factor: float, threads: int) -> int:
    """How many keys the map of one of `threads` cleaners takes."""
    return max(int(buffer_bytes * load_factor / BYTES_A_KEY / max(threads, 1)), KEYS_MIN)


class KeyMap:
    """The last offsets of at most `keys_max` keys."""

    __slots__ = ("_offsets", "keys_max", "latest")

    def __init__(self, keys_max: int) -> None:
        self.keys_max = keys_max
        self.latest = -1
        """The offset up to which everything has been put in."""
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Note that `key` was seen at `offset`; False, and nothing noted, where there is no room
        for another key."""
        if len(key) > _PLAIN_BYTES_MAX or len(key) == _HASH_BYTES:
            key = blake2b(key, digest_size=_HASH_BYTES).digest()
        offsets = self._offsets
        if len(offsets) >= self.keys_max and key not in offsets:
            return False
        offsets[key] = self.latest = offset
        return True

    def last(self, key: bytes) -> int:
        """The last offset of `key`, or -1."""
        if len(key) > _PLAIN_BYTES_MAX or len(key) == _HASH_BYTES:
            key = blake2b(key, digest_size=_HASH_BYTES).digest()
        return self._offsets.get(key, -1)
