"""Segments of old message formats (v0, v1) made into segments of record batches, for a log that comes from an old Kafka.

A log of pk holds record batches only, so this is done once, before the log is opened. Offsets and times stay; the file is
written anew beside the old one, synced, and renamed over it. The indexes, which point into the old file, go first: opening
makes them again where they are missing. A crash leaves the old segment, or the new one, and perhaps a `.tmp`, which
opening removes.
"""

from struct import Struct
from typing import Final, NamedTuple

from pk.core.errors import KafkaError
from pk.core.log import recovery
from pk.core.log.files import Disk, File
from pk.core.log.segment import INDEX, LOG, TIME_INDEX, file_name
from pk.core.record.batch import CorruptBatch
from pk.core.record.convert import upgrade
from pk.core.record.legacy import MAGICS, OVERHEAD

READ_BYTES: Final = 8 << 20
_MAGIC_AT: Final = 16
_SIZE: Final = Struct(">8xi")
_SIZE_END: Final = 12


class Upgraded(NamedTuple):
    """What `upgrade_log` did."""

    segments: int
    """How many were written anew."""
    bytes_cut: int
    """How much at their ends was no message and no batch any more."""


def holds_messages(file: File) -> bool:
    """Whether a segment's file begins with a message of an old format. Raises OSError."""
    head = file.pread(_MAGIC_AT + 1, 0)
    return len(head) > _MAGIC_AT and head[_MAGIC_AT] in MAGICS


def upgrade_log(disk: Disk, directory: str, *, mend: bool = False) -> Upgraded:
    """Write every segment in a partition's `directory` that begins with old messages anew, as record batches.

    The log is not open. `mend`: cut the last segment where it stops being sound, as recovery after a crash does;
    else, and elsewhere, damage raises CorruptBatch with its place, and that segment stays as it was. Raises OSError.
    """
    count = cut = 0
    bases = sorted(recovery.find(disk, directory).segments)
    for base_offset in bases:
        path = f"{directory}/{file_name(base_offset, LOG)}"
        old = disk.open(path)
        try:
            if not holds_messages(old):
                continue
            if disk.exists(path + ".tmp"):
                disk.remove(path + ".tmp")
            new = disk.open(path + ".tmp")
            new.pwrite(b"", 0)
            try:
                cut += _rewrite(old, new, mend and base_offset == bases[-1])
                new.sync()
            finally:
                new.close()
        finally:
            old.close()
        for suffix in (INDEX, TIME_INDEX):
            if disk.exists(stale := f"{directory}/{file_name(base_offset, suffix)}"):
                disk.remove(stale)
        disk.rename(path + ".tmp", path)
        disk.sync_dir(directory)
        count += 1
    return Upgraded(count, cut)


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
    """The rest of a segment that went on with record batches: as it is, to be looked at by whoever opens it."""
    while chunk := old.pread(READ_BYTES, position):
        new.pwrite(chunk, written)
        position += len(chunk)
        written += len(chunk)
    return 0
