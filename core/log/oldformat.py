"""A segment's file of old message formats (v0, v1) rewritten as record batches, which is all that a
log of pk reads.

Offsets and times stay. The new file is written beside the old one, synced, and renamed over it; the
indexes, which point into the old file, go first: they are made again where they are missing. A
crash leaves the old file, or the new one, and sometimes a `.tmp`, which opening a log removes.
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
    """Whether a segment's file begins with a message of an old format. Raises OSError."""
    return begins_with_message(file.pread(_MAGIC_AT + 1, 0))


def begins_with_message(head: bytes) -> bool:
    """Whether a segment's file that begins with these bytes begins with such a message."""
    return len(head) > _MAGIC_AT and head[_MAGIC_AT] in MAGICS


def rewrite(disk: Disk, path: str, indexes: Iterable[str], *, mend: bool = False) -> int:
    """Rewrite the file of old messages at `path`, and remove its `indexes`; how many bytes at its
    end were left out.

    No other code has it open. `mend`: cut it where it stops being sound, as recovery after a crash
    does; else damage raises CorruptBatch with its place, and all stays as it was. Raises OSError.
    """
    if disk.exists(path + ".tmp"):
        disk.remove(path + ".tmp")
    old, new = disk.open(path), disk.open(path + ".tmp")
    new.pwrite(b"", 0)
    try:
        cut = _rewrite(old, new, mend)
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


def _rewrite(old: File, new: File, mend: bool) -> int:
    """Write what `old` holds into `new`; how many bytes at its end were left out."""
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
            if mend:
                return size - position - done
            raise CorruptBatch(f"{old.path} at {position + done}: {e}", e.code) from e
        position += done
        whole = _SIZE.unpack_from(chunk)[0] + _SIZE_END if len(chunk) >= OVERHEAD[0] else size + 1
        if done:
            wanted = READ_BYTES
        elif whole <= size - position and whole > len(chunk):
            wanted = whole
        elif mend:
            return size - position
        else:
            raise CorruptBatch(f"{old.path} at {position}: a message that is cut off")
    return 0


def _copy(old: File, new: File, position: int, written: int) -> int:
    """The rest of a segment that went on with record batches: as it is, checked when it is
    opened."""
    while chunk := old.pread(READ_BYTES, position):
        new.pwrite(chunk, written)
        position += len(chunk)
        written += len(chunk)
    return 0
