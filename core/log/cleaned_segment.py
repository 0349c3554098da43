"""Writes a compacted segment, in files whose names end in `.cleaned`.

swap.py then replaces the old segments with it.
"""

import contextlib
from typing import Final

from pk.core.log.files import Disk
from pk.core.log.segment import INDEX, LOG, TIME_INDEX, TXN_INDEX, BatchPosition, Segment, file_name
from pk.core.log.swap import CLEANED
from pk.core.log.txnindex import AbortedTxn
from pk.core.record.batch import read_header

_FILES: Final = (LOG, INDEX, TIME_INDEX, TXN_INDEX)


class CleanedSegment:
    """Writes a segment that will replace others. Methods raise OSError."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base: int,
        now_ms: int,
        index_interval_bytes: int,
        buffer_bytes: int,
    ) -> None:
        """`base` is the segment's base offset. Batches are written `buffer_bytes` at a time."""
        self._disk = disk
        self._directory = directory
        self._interval = index_interval_bytes
        self._buffer_bytes = buffer_bytes
        self.segment = Segment(disk, directory, base, {}, now_ms, CLEANED)
        self.segment.activate()
        self.segment.txn_index.file.pwrite(b"", 0)  # exists even if empty: see swap.py
        self._buffer = bytearray()

    def add(self, batch: bytes | bytearray | memoryview) -> None:
        """Add a whole batch. Raises CorruptBatch if its header is invalid."""
        segment = self.segment
        header = read_header(batch)
        place = BatchPosition(
            header.last_offset, header.base_offset, segment.size + len(self._buffer)
        )
        segment.note(place, header.size, header.max_timestamp, self._interval)
        self._buffer += batch
        if len(self._buffer) >= self._buffer_bytes:
            self.flush()

    def index_aborted(self, aborted: AbortedTxn) -> None:
        """Add an aborted transaction to the segment's index."""
        self.segment.txn_index.append(aborted)

    def finish(self) -> dict[str, int]:
        """Make the segment durable. Returns the sizes in bytes of its files, by suffix."""
        segment = self.segment
        self.flush()
        segment.seal()
        segment.write_indexes()
        files = dict(zip(_FILES, segment.files, strict=True))
        for file in files.values():
            file.sync()
        self._disk.sync_dir(self._directory)
        return {suffix: file.size() for suffix, file in files.items()}

    def close(self) -> None:
        """Close the segment's files."""
        self.segment.close()

    def flush(self) -> None:
        """Write the added batches without syncing."""
        self.segment.file.pwrite(self._buffer, self.segment.size)
        self.segment.size += len(self._buffer)
        self._buffer = bytearray()


def remove_cleaned(disk: Disk, directory: str, base: int) -> None:
    """Remove the `.cleaned` files of the segment that begins at `base`. Raises OSError."""
    for suffix in _FILES:
        with contextlib.suppress(FileNotFoundError):
            disk.remove(f"{directory}/{file_name(base, suffix)}{CLEANED}")
