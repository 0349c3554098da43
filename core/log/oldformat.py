"""Rewrites a segment file in an old message format (v0, v1) as record batches, the only format that
logs of pk have.

Offsets and timestamps stay the same. The new file is written next to the old one, synced, and
renamed over it. The indexes, which refer to the old file, are removed first; missing indexes are
rebuilt. A crash leaves the old file or the new one, and sometimes a `.tmp` file, which is removed
when a log is opened.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from pk.core.errors import KafkaError
from pk.core.log.files import Disk, File
from pk.core.record.batch import CorruptBatch
from pk.core.record.convert import upgrade
from pk.core.record.legacy import MAGICS, OVERHEAD

READ_BYTES: Final = 8 << 20
_MAGIC_AT: Final = 16
_SIZE: Final = Struct(">8xi")
_SIZE_END: Final = 12


def holds_messages(file: File) -> bool:
    """Return whether a segment's file begins with a message of an old format. Raises OSError."""
    return begins_with_message(file.pread(_MAGIC_AT + 1, 0))


def begins_with_message(head: bytes) -> bool:
    """Return whether these first bytes of a segment's file are the start of such a message."""
    return len(head) > _MAGIC_AT and head[_MAGIC_AT] in MAGICS


def rewrite(disk: Disk, path: str, indexes: Iterable[str], *, repair: bool = False) -> int:
    """Rewrite the file of old messages at `path`, and remove its `indexes`. Returns how many bytes
    at its end were left out.

    No other code may have the file open. With `repair` it is truncated before the first damage, as
    in recovery after a crash; otherwise damage raises CorruptBatch with its position, and the file
    is not changed. Raises OSError.
    """
    if disk.exists(path + ".tmp"):
        disk.remove(path + ".tmp")
    old, new = disk.open(path), disk.open(path + ".tmp")
    new.pwrite(b"", 0)
    try:
        cut = _rewrite(old, new, repair)
        new.sync()
    finally:
        new.close()
        old.close()
    for stale in indexes:
        if disk.exists(stale):
            disk.remove(stale)
    disk.rename(path + ".tmp", path)
    disk.sync_dir(path.rpartition("/")[0])
    return cut


def _rewrite(old: File, new: File, repair: bool) -> int:
    """Convert `old` into `new`. Returns how many bytes at the end of `old` were left out."""
    position = written = 0
    size, wanted = old.size(), READ_BYTES
    while position < size:
        chunk = old.pread(min(wanted, size - position), position)
        if len(chunk) > _MAGIC_AT and chunk[_MAGIC_AT] not in MAGICS:
            return _copy(old, new, position, written)
        done = 0
        try:
            for done, batch in upgrade(chunk):  # noqa: B007 - how far it came counts after an error too
                new.pwrite(batch, written)
                written += len(batch)
        except KafkaError as e:
            if repair:
                return size - position - done
            raise CorruptBatch(f"{old.path} at {position + done}: {e}", e.code) from e
        position += done
        whole = _SIZE.unpack_from(chunk)[0] + _SIZE_END if len(chunk) >= OVERHEAD[0] else size + 1
        if done:
            wanted = READ_BYTES
        elif whole <= size - position and whole > len(chunk):
            wanted = whole
        elif repair:
            return size - position
        else:
            raise CorruptBatch(f"{old.path} at {position}: a message that is cut off")
    return 0


def _copy(old: File, new: File, position: int, written: int) -> int:
    """Copy the rest of a segment that continues with record batches. They need no conversion, and
    are checked when the log is opened."""
    while chunk := old.pread(READ_BYTES, position):
        new.pwrite(chunk, written)
        position += len(chunk)
        written += len(chunk)
    return 0
