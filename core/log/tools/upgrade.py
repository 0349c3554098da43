"""Segments of old message formats (v0, v1) made into segments of record batches, for a log that
comes from an old Kafka: once, before the log is opened. What is put into a log's directory by hand
later is rewritten when it is first looked at (`Segment.check_indexes`).
"""

from typing import NamedTuple

from pk.core.log import recovery
from pk.core.log.files import Disk
from pk.core.log.oldformat import holds_messages, rewrite
from pk.core.log.segment import INDEX, LOG, TIME_INDEX, file_name


class Upgraded(NamedTuple):
    """What `upgrade_log` did."""

    segments: int
    """How many were rewritten."""
    bytes_cut: int
    """How much at their ends was no message and no batch any more."""


def upgrade_log(disk: Disk, directory: str, *, mend: bool = False) -> Upgraded:
    """Rewrite every segment in a partition's `directory` that begins with old messages, as record
    batches.

    The log is not open. `mend`: cut the last segment where it stops being sound, as recovery after
    a crash does; else, and elsewhere, damage raises CorruptBatch with its place, and that segment
    stays as it was. Raises OSError.
    """
    count = cut = 0
    bases = sorted(recovery.find(disk, directory).segments)
    for base_offset in bases:
        path, *indexes = (
            f"{directory}/{file_name(base_offset, suffix)}" for suffix in (LOG, INDEX, TIME_INDEX)
        )
        file = disk.open(path)
        try:
            old = holds_messages(file)
        finally:
            file.close()
        if old:
            cut += rewrite(disk, path, indexes, mend=mend and base_offset == bases[-1])
            count += 1
    return Upgraded(count, cut)
