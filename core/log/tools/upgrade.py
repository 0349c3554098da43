"""Rewrites segments of old message formats (v0, v1) as record batches, once, before a log from an
old Kafka is opened. Segments added by hand to a log's directory later are rewritten at first use
(`Segment.check_indexes`)."""

from typing import NamedTuple

from pk.core.log import recovery
from pk.core.log.files import Disk
from pk.core.log.oldformat import holds_messages, rewrite
from pk.core.log.segment import INDEX, LOG, TIME_INDEX, file_name


class Upgraded(NamedTuple):
    """The result of `upgrade_log`."""

    segments: int
    """The number of rewritten segments."""
    bytes_cut: int
    """The number of bytes at the ends of segments that were neither messages nor batches."""


def upgrade_log(disk: Disk, directory: str, *, repair: bool = False) -> Upgraded:
    """Rewrite every segment in a partition's `directory` that begins with old messages as record
    batches.

    The log must not be open. With `repair` the last segment is truncated before the first damage,
    as in recovery after a crash; otherwise, and in other segments, damage raises CorruptBatch with
    its position, and that segment is not changed. Raises OSError.
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
            cut += rewrite(disk, path, indexes, repair=repair and base_offset == bases[-1])
            count += 1
    return Upgraded(count, cut)
