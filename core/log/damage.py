"""Telling a torn tail from damage, for logs whose every batch is synced before the next one is
written.

A crash can tear the last batch of such a log, and no other. So where a batch is not whole and a
sound one lies behind it, what was once durable has been changed since, and cutting the log there
would throw away what is still good.
"""

from pk.core.log.checked_bytes import checked_batches
from pk.core.log.damaged import has_batch_behind
from pk.core.log.files import Disk
from pk.core.log.recovery import find
from pk.core.log.segment import LOG, file_name
from pk.core.record.batch import CorruptBatch


def damage_before_end(disk: Disk, directory: str) -> str | None:
    """Where the log in `directory` has a batch that is not whole though others follow, in a few
    words; None if it has none, or is not there. Reads all of it. Raises OSError."""
    if not disk.exists(directory):
        return None
    sizes = find(disk, directory).segments
    bases = sorted(sizes)
    for base, following in zip(bases, [*bases[1:], None], strict=False):
        path, size = f"{directory}/{file_name(base, LOG)}", sizes[base][LOG]
        file = disk.open(path)
        try:
            position, offset, why = 0, base, ""
            try:
                for at, header in checked_batches(file, 0, size):
                    if header.base_offset != offset:  # which no CRC covers
                        break
                    position, offset = at + header.size, header.next_offset
            except CorruptBatch as e:
                why = e.message
            found = why or f"{path} at position {position}: no batch of offset {offset}"
            if following is not None and offset != following:
                return found
            if has_batch_behind(file, position, size, offset):
                return found
        finally:
            file.close()
    return None
