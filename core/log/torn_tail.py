"""Distinguishes a torn tail from damage, in logs that sync every batch before the next one is
written.

A crash can tear only the last batch of such a log. So if a batch is incomplete and a valid one
comes after it, durable data has been changed since, and truncating the log there would discard
valid records.
"""

from pk.core.log.checked_bytes import checked_batches
from pk.core.log.damaged import has_batch_after
from pk.core.log.files import Disk
from pk.core.log.recovery import find
from pk.core.log.segment import LOG, file_name
from pk.core.record.batch import CorruptBatch


def damage_before_end(disk: Disk, directory: str) -> str | None:
    """Find an incomplete batch that others follow, in the log in `directory`. Returns a short
    description of its position; None if there is no such batch, or no log. Reads the whole log.
    Raises OSError."""
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
                    if header.base_offset != offset:  # the CRC does not cover the offset
                        break
                    position, offset = at + header.size, header.next_offset
            except CorruptBatch as e:
                why = e.message
            found = why or f"{path} at position {position}: no batch of offset {offset}"
            if following is not None and offset != following:
                return found
            if has_batch_after(file, position, size, offset):
                return found
        finally:
            file.close()
    return None
